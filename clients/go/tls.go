package quiver

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"

	"google.golang.org/grpc/credentials"
)

// TLS is an option of [Dial] for a router over a network: who the client is, and whom it trusts, by files in PEM.
type TLS struct {
	// Certificate is the client's, with those between it and the CA behind it, and Key its private key. Both are read for each connection, so
	// that a renewed certificate is used.
	Certificate, Key string
	// CA has the certificates of those that sign the routers'.
	CA string
	// ServerName is the name that the router's certificate must have, where it is not the host.
	ServerName string
}

func (t TLS) apply(s *settings) { s.tls = &t }

func (t TLS) credentials() (credentials.TransportCredentials, error) {
	pem, err := os.ReadFile(t.CA)
	if err != nil {
		return nil, fmt.Errorf("quiver: %w", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("quiver: %s: there is no certificate in it", t.CA)
	}
	own := func() (*tls.Certificate, error) {
		pair, err := tls.LoadX509KeyPair(t.Certificate, t.Key)
		if err != nil {
			return nil, fmt.Errorf("quiver: %s, %s: %w", t.Certificate, t.Key, err)
		}
		return &pair, nil
	}
	if _, err := own(); err != nil {
		return nil, err
	}
	return credentials.NewTLS(&tls.Config{
		MinVersion:           tls.VersionTLS12,
		RootCAs:              roots,
		ServerName:           t.ServerName,
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return own() },
	}), nil
}
