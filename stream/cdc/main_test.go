package cdc

import (
	"testing"

	"github.com/quivernet/quiver/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }
