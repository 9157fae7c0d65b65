package door

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"

	"github.com/holdfast-run/holdfast/internal/config"
	"github.com/holdfast-run/holdfast/internal/telemetry"
)

// Certificates are the files of a server that speaks TLS. They are looked at with
// each connection and read again when they have changed; what cannot be used then
// is logged, and the server goes on with what it has.
type Certificates struct {
	CertFile, KeyFile string // PEM; the certificate with what it was signed by
	// ClientCAFile holds the authorities of clients' certificates; with it who shows
	// none from them is refused.
	ClientCAFile string
	Log          *slog.Logger // nil = silent
}

// On reports whether there is anything to serve with.
func (c Certificates) On() bool { return c != Certificates{Log: c.Log} }

// Validate joins every problem it finds.
func (c Certificates) Validate() error {
	var all []error
	if (c.CertFile == "") != (c.KeyFile == "") {
		all = append(all, errors.New("--tls-cert and --tls-key belong together"))
	}
	if c.ClientCAFile != "" && c.CertFile == "" {
		all = append(all, errors.New("--tls-client-ca needs --tls-cert and --tls-key"))
	}
	return errors.Join(all...)
}

// config is what a listener needs. Files that cannot be used are an error now.
func (c Certificates) config() (*tls.Config, error) {
	k := &keeper{files: c}
	if _, err := k.current(); err != nil {
		return nil, err
	}
	return &tls.Config{
		MinVersion:         tls.VersionTLS12,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return k.current() },
	}, nil
}

// keeper has what the files held when they were last read.
type keeper struct {
	files Certificates

	mu     sync.Mutex
	stamp  string
	config *tls.Config
}

func (k *keeper) current() (*tls.Config, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	stamp, err := k.files.stamp()
	if err == nil && stamp == k.stamp {
		return k.config, nil
	}
	var fresh *tls.Config
	if err == nil {
		fresh, err = k.files.read()
	}
	switch {
	case err == nil:
		k.config = fresh
	case k.config == nil:
		return nil, err
	case k.files.Log != nil:
		k.files.Log.Error("certificates cannot be read, going on with those of before", telemetry.KeyErr, err)
	}
	k.stamp = stamp // so that the same fault is said once
	return k.config, nil
}

// stamp changes when one of the files does.
func (c Certificates) stamp() (string, error) {
	var all strings.Builder
	for _, f := range []string{c.CertFile, c.KeyFile, c.ClientCAFile} {
		if f == "" {
			continue
		}
		info, err := os.Stat(f)
		if err != nil {
			return "", fmt.Errorf("look at certificates: %w", err)
		}
		fmt.Fprintf(&all, "%d %d\n", info.ModTime().UnixNano(), info.Size())
	}
	return all.String(), nil
}

func (c Certificates) read() (*tls.Config, error) {
	cert, err := tls.LoadX509KeyPair(c.CertFile, c.KeyFile)
	if err != nil {
		return nil, fmt.Errorf("read %s and %s: %w", c.CertFile, c.KeyFile, err)
	}
	served := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{cert}, NextProtos: []string{"http/1.1"}}
	if c.ClientCAFile != "" {
		if served.ClientCAs, err = config.ReadAuthorities(c.ClientCAFile); err != nil {
			return nil, err
		}
		served.ClientAuth = tls.RequireAndVerifyClientCert
	}
	return served, nil
}
