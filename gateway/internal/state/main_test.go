package state

import (
	"testing"

	"turnout/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }
