package versions

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/examples/savegame/store"
	"github.com/quivernet/quiver/rpc/users"
	"github.com/quivernet/quiver/stream"
)

func TestCheckName(t *testing.T) {
	for _, good := range []string{"world.sav", "World 1", "a", "späte Welt", "進行状況", "x_y-z.0", "con", "world (conflict pc 2026-01-02 03.04.05)", strings.Repeat("A", users.MaxName)} {
		require.NoError(t, users.CheckName(good), good)
		require.NoError(t, store.CheckKey(escape(good)), good)
	}
	for _, bad := range []string{"", ".", "..", "../x", "a/b", `a\b`, ".hidden", "-rf", " x", "x ", "x.", "a\x00b", "a\nb", "a:b", "a*", "\xff", strings.Repeat("a", users.MaxName+1)} {
		require.ErrorIs(t, users.CheckName(bad), users.ErrName, bad)
	}
}

func TestEscape(t *testing.T) {
	require.Equal(t, "_=57orld=201.sav", escape("World 1.sav"))
	for _, other := range []string{"", "_", "world", "_w=6frld", "_=57=4", "_=5G", "_.x", "_a=2Fb"} {
		_, ok := unescape(other)
		require.False(t, ok, other)
	}
}

func FuzzNames(f *testing.F) {
	f.Add("World 1.sav", "_=57orld")
	f.Fuzz(func(t *testing.T, name, element string) {
		if users.CheckName(name) == nil {
			back, ok := unescape(escape(name))
			require.True(t, ok)
			require.Equal(t, name, back)
			require.NoError(t, store.CheckKey(escape(name)))
			require.NoError(t, users.CheckName(asideAt(name, name, time.Unix(0, 0))))
		}
		if back, ok := unescape(element); ok {
			require.Equal(t, element, escape(back))
		}
	})
}

func TestRecord(t *testing.T) {
	v := Version{Name: "World 1", Number: 3, Kind: Stored, Base: 2, Content: saveOf("one").digest(), Size: 1 << 40, Files: 7, Time: time.Unix(1, 2).UTC(), Machine: "laptop"}
	b := v.encode()
	require.Equal(t, v, decode("World 1", 3, b))
	damaged := Version{Name: "World 1", Number: 3, Kind: Damaged}
	for i := range b {
		for _, bit := range []byte{1, 0x20} {
			b[i] ^= bit
			require.Equal(t, damaged, decode("World 1", 3, b), "byte %d", i)
			b[i] ^= bit
		}
		require.Equal(t, damaged, decode("World 1", 3, b[:i]))
	}
	require.Equal(t, Damaged, decode("World 1", 4, b).Kind)
	require.Equal(t, Damaged, decode("World 2", 3, b).Kind)
}

// A version can be sent: all of it has a bound.
func TestVersionOnTheWire(t *testing.T) {
	require.NotPanics(t, func() { stream.NewArray[Version]("versions") })
	for name := range reflect.TypeFor[Version]().Fields() {
		if tag := name.Tag.Get("quiver"); tag != "" && name.Name != "Kind" {
			require.Equal(t, fmt.Sprint("max=", users.MaxName), tag)
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(Version{Name: "a", Number: 1, Kind: Stored}.encode())
	f.Add([]byte(`{"content":"zz"}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		if v := decode("a", 1, b); v.Kind != Damaged {
			require.Equal(t, string(b), string(v.encode()))
		}
	})
}
