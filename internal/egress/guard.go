package egress

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"time"
)

// ErrRefused is wrapped by the error of a request to an address that is not
// allowed. Nothing was sent.
var ErrRefused = errors.New("address is not allowed")

// ParseAllow reads the ranges that may be reached although they are not public:
// "127.0.0.0/8", "10.1.0.0/16", "::1". It joins what it cannot read.
func ParseAllow(list []string) ([]netip.Prefix, error) {
	var out []netip.Prefix
	var errs []error
	for _, text := range list {
		text = strings.TrimSpace(text)
		if text == "" {
			continue
		}
		if addr, err := netip.ParseAddr(text); err == nil {
			out = append(out, netip.PrefixFrom(addr.Unmap(), addr.Unmap().BitLen()))
			continue
		}
		p, err := netip.ParsePrefix(text)
		if err != nil {
			errs = append(errs, fmt.Errorf("%q is neither an address nor a range like 10.0.0.0/8", text))
			continue
		}
		out = append(out, p.Masked())
	}
	return out, errors.Join(errs...)
}

func prefixes(list ...string) []netip.Prefix {
	out := make([]netip.Prefix, len(list))
	for i, text := range list {
		out[i] = netip.MustParsePrefix(text)
	}
	return out
}

// notPublic lists what netip's own predicates do not cover.
// Source: IANA IPv4 and IPv6 Special-Purpose Address Registries.
var notPublic = prefixes(
	"0.0.0.0/8",         // this network
	"100.64.0.0/10",     // carrier-grade NAT, where some clouds keep their metadata
	"192.0.0.0/24",      // IETF protocol assignments
	"192.0.2.0/24",      // documentation
	"192.88.99.0/24",    // 6to4 relays
	"198.18.0.0/15",     // benchmarks
	"198.51.100.0/24",   // documentation
	"203.0.113.0/24",    // documentation
	"240.0.0.0/4",       // reserved, and the broadcast address
	"::/96",             // IPv4-compatible
	"64:ff9b:1::/48",    // local NAT64
	"100::/64",          // discard
	"2001::/23",         // protocol assignments, Teredo among them
	"2001:db8::/32",     // documentation
	"3fff::/20",         // documentation
	"5f00::/16",         // segment routing
	"fec0::/10",         // site-local
	"168.63.129.16/32",  // metadata of Azure
	"fd00:ec2::254/128", // metadata of AWS
	"fd20:ce::254/128",  // metadata of Google
	"192.168.0.0/16",    // private, as IsPrivate says
	"169.254.0.0/16",    // link-local, metadata of most clouds
)

var (
	nat64   = netip.MustParsePrefix("64:ff9b::/96")
	sixToIV = netip.MustParsePrefix("2002::/16")
)

// allowed reports whether addr may be dialled.
func allowed(addr netip.Addr, allow []netip.Prefix) bool {
	addr = addr.Unmap().WithZone("")
	for _, p := range allow {
		if p.Contains(addr) {
			return true
		}
	}
	if !addr.IsValid() || addr.IsUnspecified() || addr.IsLoopback() || addr.IsPrivate() || addr.IsMulticast() ||
		addr.IsLinkLocalUnicast() || addr.IsLinkLocalMulticast() || addr.IsInterfaceLocalMulticast() {
		return false
	}
	for _, p := range notPublic {
		if p.Contains(addr) {
			return false
		}
	}
	// An IPv6 address that only carries an IPv4 address is judged by that.
	b := addr.As16()
	switch {
	case nat64.Contains(addr):
		return allowed(netip.AddrFrom4([4]byte(b[12:16])), allow)
	case sixToIV.Contains(addr):
		return allowed(netip.AddrFrom4([4]byte(b[2:6])), allow)
	}
	return true
}

// inner lists what a definition may reach by naming a host: networks of one's
// own. Link-local addresses and where clouds keep metadata are not among them.
var inner = prefixes("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "127.0.0.0/8", "100.64.0.0/10", "::1/128", "fc00::/7")

// metadata lists what lies within inner and is not reached that way.
var metadata = prefixes("100.100.100.200/32", "fd00:ec2::254/128", "fd20:ce::254/128")

// innerAllowed reports whether an address may be dialled for a host that the
// definition names.
func innerAllowed(addr netip.Addr) bool {
	addr = addr.Unmap().WithZone("")
	within := func(list []netip.Prefix) bool {
		return slices.ContainsFunc(list, func(p netip.Prefix) bool { return p.Contains(addr) })
	}
	return within(inner) && !within(metadata)
}

const dialTimeout = 10 * time.Second

// dialer returns a dialer that refuses addresses when they are about to be
// connected to, which is after DNS. The hosts of r may have inner addresses.
func dialer(allow []netip.Prefix, r Reach) func(ctx context.Context, network, address string) (net.Conn, error) {
	control := func(named bool) func(context.Context, string, string, syscall.RawConn) error {
		return func(_ context.Context, network, address string, _ syscall.RawConn) error {
			ap, err := netip.ParseAddrPort(address)
			switch {
			case err != nil || !strings.HasPrefix(network, "tcp"):
				return fmt.Errorf("%w: %s %s", ErrRefused, network, address)
			case allowed(ap.Addr(), allow), named && innerAllowed(ap.Addr()):
				return nil
			}
			return fmt.Errorf("%w: %s is private, local or reserved; name the host in allowHosts, or allow the range with --egress-allow", ErrRefused, ap.Addr())
		}
	}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		d := &net.Dialer{Timeout: dialTimeout, ControlContext: control(r.names(address))}
		return d.DialContext(ctx, network, address)
	}
}
