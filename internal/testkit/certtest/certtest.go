// Package certtest makes certificates for tests of TLS.
package certtest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Files are the PEM files of a certificate for 127.0.0.1 and localhost.
type Files struct {
	CA       string // the authority to trust
	Cert     string
	Key      string // PKCS #8
	KeyStore string // key and certificate in one file
}

// New makes an authority and a certificate signed by it.
func New(t testing.TB) Files {
	t.Helper()
	authority := &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		Subject:               pkix.Name{CommonName: "turnout test authority"},
		NotBefore:             time.Now().Add(-time.Hour),
		NotAfter:              time.Now().Add(time.Hour),
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign,
	}
	authorityKey := newKey(t)
	authorityDER := sign(t, authority, authority, authorityKey, authorityKey)
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(2),
		Subject:      pkix.Name{CommonName: "localhost"},
		NotBefore:    authority.NotBefore,
		NotAfter:     authority.NotAfter,
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		DNSNames:     []string{"localhost"},
		IPAddresses:  []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	key := newKey(t)
	leafDER := sign(t, leaf, authority, key, authorityKey)
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}

	dir := t.TempDir()
	write := func(name string, blocks ...*pem.Block) string {
		path := filepath.Join(dir, name)
		var data []byte
		for _, block := range blocks {
			data = append(data, pem.EncodeToMemory(block)...)
		}
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	keyBlock := &pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}
	certBlock := &pem.Block{Type: "CERTIFICATE", Bytes: leafDER}
	return Files{
		CA:       write("ca.pem", &pem.Block{Type: "CERTIFICATE", Bytes: authorityDER}),
		Cert:     write("cert.pem", certBlock),
		Key:      write("key.pem", keyBlock),
		KeyStore: write("keystore.pem", keyBlock, certBlock),
	}
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func sign(t testing.TB, template, parent *x509.Certificate, key, parentKey *ecdsa.PrivateKey) []byte {
	t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, parentKey)
	if err != nil {
		t.Fatal(err)
	}
	return der
}
