package emit

import (
	"os"
	"testing"

	"go.uber.org/goleak"

	"turnout/internal/testkit"
)

func TestMain(m *testing.M) {
	if os.Getenv(childVariable) != "" {
		child()
	}
	code := testkit.Run(m)
	if err := goleak.Find(); err != nil && code == 0 {
		println(err.Error())
		code = 1
	}
	os.Exit(code)
}
