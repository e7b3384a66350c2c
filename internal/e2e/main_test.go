package e2e

import (
	"testing"

	"github.com/cantus-bus/cantus/internal/leak"
)

func TestMain(m *testing.M) { leak.VerifyTestMain(m) }
