package config_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"turnout/internal/config"
)

func TestTLSNamesItsSection(t *testing.T) {
	for _, c := range []struct {
		tls  config.TLS
		says []string
	}{
		{config.TLS{}, nil},
		{config.TLS{Enabled: true}, nil},
		{config.TLS{Enabled: true, CertFile: "c", KeyFile: "k"}, nil},
		{config.TLS{Enabled: true, CertFile: "c"}, []string{"kafka.tls.cert_file and kafka.tls.key_file: give both"}},
		{config.TLS{CAFile: "a"}, []string{"kafka.tls.enabled: false although"}},
		{config.TLS{InsecureSkipVerify: true, KeyFile: "k"}, []string{"kafka.tls.enabled: false although", "give both"}},
	} {
		err := c.tls.Validate("kafka.tls")
		if (err == nil) != (len(c.says) == 0) {
			t.Errorf("%+v: %v", c.tls, err)
		}
		for _, part := range c.says {
			if err != nil && !strings.Contains(err.Error(), part) {
				t.Errorf("%+v: %q lacks %q", c.tls, err, part)
			}
		}
	}
}

func TestTLSFilesThatAreNoneAreNamed(t *testing.T) {
	if got, err := (config.TLS{}).Client("x"); got != nil || err != nil {
		t.Errorf("not enabled: %v, %v", got, err)
	}
	file := filepath.Join(t.TempDir(), "no.pem")
	if err := os.WriteFile(file, []byte("no certificate"), 0o600); err != nil {
		t.Fatal(err)
	}
	for key, c := range map[string]config.TLS{
		"clickhouse.tls.ca_file: open":           {Enabled: true, CAFile: file + "x"},
		"clickhouse.tls.ca_file: no certificate": {Enabled: true, CAFile: file},
		"clickhouse.tls.cert_file and":           {Enabled: true, CertFile: file, KeyFile: file},
	} {
		if _, err := c.Client("clickhouse.tls"); err == nil || !strings.Contains(err.Error(), key) {
			t.Errorf("%v, want %q", err, key)
		}
	}
	got, err := config.TLS{Enabled: true, ServerName: "s", InsecureSkipVerify: true}.Client("x")
	if err != nil || got.ServerName != "s" || !got.InsecureSkipVerify || got.MinVersion == 0 {
		t.Errorf("%+v, %v", got, err)
	}
}
