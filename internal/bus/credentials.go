package bus

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"

	"github.com/holdfast-run/holdfast/internal/config"
)

// Credentials say who connects, and by which certificates. Files are read again for
// each connection, so that what is in them may change. Zero connects as nobody,
// with the system's authorities where the URL begins with tls://.
type Credentials struct {
	// User and its password, or the file that holds it.
	User         string
	Password     config.Secret
	PasswordFile string
	// CredsFile holds a JWT and its seed, NKeyFile a seed alone.
	CredsFile, NKeyFile string
	// CAFile holds the authorities that the servers' certificates are from;
	// CertFile and KeyFile are the client's own certificate.
	CAFile, CertFile, KeyFile string
}

// Validate joins every problem it finds.
func (c Credentials) Validate() error {
	ways := 0
	for _, way := range []string{c.User, c.CredsFile, c.NKeyFile} {
		if way != "" {
			ways++
		}
	}
	var all []error
	if ways > 1 {
		all = append(all, errors.New("set one of --nats-user, --nats-creds and --nats-nkey"))
	}
	password := c.Password != "" || c.PasswordFile != ""
	if password != (c.User != "") {
		all = append(all, errors.New("--nats-user and --nats-password or --nats-password-file belong together"))
	}
	if c.Password != "" && c.PasswordFile != "" {
		all = append(all, errors.New("set --nats-password or --nats-password-file, not both"))
	}
	if (c.CertFile == "") != (c.KeyFile == "") {
		all = append(all, errors.New("--nats-cert and --nats-key belong together"))
	}
	return errors.Join(all...)
}

// options are those of one connection. Files that cannot be read are an error now.
func (c Credentials) options() ([]nats.Option, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	var opts []nats.Option
	switch {
	case c.CredsFile != "":
		if _, err := config.ReadSecret(c.CredsFile); err != nil {
			return nil, err
		}
		opts = append(opts, nats.UserCredentials(c.CredsFile))
	case c.NKeyFile != "":
		opt, err := nats.NkeyOptionFromSeed(c.NKeyFile)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", c.NKeyFile, err)
		}
		opts = append(opts, opt)
	case c.PasswordFile != "":
		if _, err := config.ReadSecret(c.PasswordFile); err != nil {
			return nil, err
		}
		opts = append(opts, nats.UserInfoHandler(func() (string, string) {
			password, err := config.ReadSecret(c.PasswordFile)
			if err != nil {
				return c.User, "" // refused, and tried again
			}
			return c.User, password.Reveal()
		}))
	case c.User != "":
		opts = append(opts, nats.UserInfo(c.User, c.Password.Reveal()))
	}
	var cert func() (tls.Certificate, error)
	var authorities func() (*x509.CertPool, error)
	if c.CertFile != "" {
		cert = func() (tls.Certificate, error) { return tls.LoadX509KeyPair(c.CertFile, c.KeyFile) }
		if _, err := cert(); err != nil {
			return nil, fmt.Errorf("read %s: %w", c.CertFile, err)
		}
	}
	if c.CAFile != "" {
		authorities = func() (*x509.CertPool, error) { return config.ReadAuthorities(c.CAFile) }
		if _, err := authorities(); err != nil {
			return nil, err
		}
	}
	if cert != nil || authorities != nil {
		opts = append(opts, nats.ClientTLSConfig(cert, authorities), nats.Secure())
	}
	return opts, nil
}
