package config

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
)

// TLS says whether and how connections to a server are encrypted. The section it stands in, such as
// "kafka.tls", is what its errors name.
type TLS struct {
	Enabled            bool   `koanf:"enabled" help:"speak TLS"`
	CAFile             string `koanf:"ca_file" help:"PEM file with the authorities to trust (default: the system's)"`
	CertFile           string `koanf:"cert_file" help:"PEM file with this client's certificate"`
	KeyFile            string `koanf:"key_file" help:"PEM file with this client's private key"`
	ServerName         string `koanf:"server_name" help:"name expected in the server's certificate (default: the host dialled)"`
	InsecureSkipVerify bool   `koanf:"insecure_skip_verify" help:"accept any certificate: for tests only"`
}

// Validate returns every mistake, each with its key. Files are not looked at.
func (t TLS) Validate(section string) error {
	var mistakes []error
	if (t.CertFile == "") != (t.KeyFile == "") {
		mistakes = append(mistakes, fmt.Errorf("%[1]s.cert_file and %[1]s.key_file: give both or neither", section))
	}
	if !t.Enabled && t != (TLS{}) {
		mistakes = append(mistakes, fmt.Errorf("%[1]s.enabled: false although other %[1]s settings are given; set it to true or remove them", section))
	}
	return errors.Join(mistakes...)
}

// Client reads the files and returns what to dial with: nil where TLS is not enabled.
func (t TLS) Client(section string) (*tls.Config, error) {
	if !t.Enabled {
		return nil, nil
	}
	out := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: t.ServerName, InsecureSkipVerify: t.InsecureSkipVerify}
	if t.CAFile != "" {
		pem, err := os.ReadFile(t.CAFile)
		if err != nil {
			return nil, fmt.Errorf("%s.ca_file: %w", section, err)
		}
		out.RootCAs = x509.NewCertPool()
		if !out.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%s.ca_file: no certificate in %s; it must be PEM", section, t.CAFile)
		}
	}
	if t.CertFile != "" {
		pair, err := tls.LoadX509KeyPair(t.CertFile, t.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("%[1]s.cert_file and %[1]s.key_file: %[2]w", section, err)
		}
		out.Certificates = []tls.Certificate{pair}
	}
	return out, nil
}
