package config

import (
	"crypto/x509"
	"fmt"
	"os"
)

// ReadAuthorities reads the certificates of authorities from a PEM file. A file
// that holds none is an error.
func ReadAuthorities(path string) (*x509.CertPool, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read authorities: %w", err)
	}
	all := x509.NewCertPool()
	if !all.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("read authorities: %s holds no certificate", path)
	}
	return all, nil
}
