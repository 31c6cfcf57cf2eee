package sealed

import (
	"github.com/quivernet/quiver/internal/testkit"

	"testing"
)

func TestMain(m *testing.M) { testkit.Main(m) }
