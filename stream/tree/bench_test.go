package tree

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/testkit"
)

const benchSize = 256 << 20

func benchFile(b *testing.B) string {
	p := filepath.Join(b.TempDir(), "world")
	require.NoError(b, os.WriteFile(p, noise(testkit.Rand(b), benchSize), 0o600))
	age(b, p)
	return p
}

func BenchmarkScan(b *testing.B) {
	p := benchFile(b)
	b.SetBytes(benchSize)
	b.ReportAllocs()
	for b.Loop() {
		scanned(b, ScanOptions{}, p)
	}
}

func BenchmarkRestore(b *testing.B) {
	from := scanned(b, ScanOptions{}, benchFile(b))
	target := filepath.Join(b.TempDir(), "target")
	b.SetBytes(benchSize)
	for b.Loop() {
		r := begun(b, from.Manifest, target, RestoreOptions{Local: from})
		require.NoError(b, r.Commit(b.Context()))
	}
}

func BenchmarkRestoreOfManyFiles(b *testing.B) {
	dir, files := b.TempDir(), make(map[string]string)
	for i := range 1000 {
		files[fmt.Sprintf("save/%d/%d", i%10, i)] = fmt.Sprint(i)
	}
	write(b, dir, files)
	from := scanned(b, ScanOptions{}, filepath.Join(dir, "save"))
	for b.Loop() {
		r := begun(b, from.Manifest, filepath.Join(dir, "target"), RestoreOptions{Local: from})
		require.NoError(b, r.Commit(b.Context()))
	}
}
