package egress

import (
	"context"
	"crypto/tls"
	"net"
)

// Dial connects to "host:port" for a protocol that is not HTTP, within the same
// guards, and returns how TLS on it is verified: for the host, or for who the
// definition names. Every error says that nothing was sent.
func (c *Client) Dial(ctx context.Context, address string, r Reach) (net.Conn, *tls.Config, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, nil, &Error{Err: err}
	}
	if c.trippers.config.NoHosts {
		r.Hosts = nil
	}
	settings, err := r.tls()
	if err != nil {
		return nil, nil, &Error{Err: err}
	}
	if settings.ServerName == "" {
		settings.ServerName = host
	}
	conn, err := dialer(c.trippers.config.Allow, r)(ctx, "tcp", address)
	if err != nil {
		return nil, nil, &Error{Err: plain(ctx, err)}
	}
	return conn, settings, nil
}
