package chx_test

import (
	"net"
	"os"
	"strings"
	"testing"

	"turnout/internal/chx"
)

// Beside a running `turnout dev` the commands that ask said "connection refused" and no more.
func TestARefusedDefaultAddressNamesTheSettingsOfDev(t *testing.T) {
	t.Chdir(t.TempDir())
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed := chx.Default()
	closed.Addr = []string{ln.Addr().String()}
	ln.Close()
	conn, err := chx.Open(closed)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	refused := conn.Exec(t.Context(), "SELECT 1")
	if refused == nil {
		t.Fatal("a closed port answered")
	}

	const want = "add --config .turnout/turnout.yaml"
	if err := chx.Default().Hint(refused); strings.Contains(err.Error(), want) {
		t.Errorf("without the file: %v", err)
	}
	if err := os.Mkdir(".turnout", 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(".turnout/turnout.yaml", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := chx.Default().Hint(refused); !strings.Contains(err.Error(), want) {
		t.Errorf("with the file: %v", err)
	}
	if err := closed.Hint(refused); strings.Contains(err.Error(), want) {
		t.Errorf("of an address that somebody gave: %v", err)
	}
	if err := chx.Default().Hint(nil); err != nil {
		t.Errorf("of no error: %v", err)
	}
}
