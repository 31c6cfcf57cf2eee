//go:build !windows

package tree

import (
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestNotes(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, map[string]string{"a/in": "-> ../b", "a/out": "-> ../../b", "abs": "-> /etc/passwd", "b": "x", "badlink": "-> x\xff", "not\xffutf8": "", "dir\xff/x": ""})
	require.NoError(t, syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600))
	s := scanned(t, ScanOptions{}, dir)
	require.Equal(t, []string{".", "a", "a/in", "a/out", "abs", "b"}, pathsOf(s))
	var left, told []string
	for _, n := range s.Notes {
		if n.LeftOut {
			left = append(left, n.Path)
		} else {
			told = append(told, n.Path)
		}
	}
	require.Equal(t, []string{"badlink", "dir\xff", "not\xffutf8", "pipe"}, left)
	require.Equal(t, []string{"a/out", "abs"}, told)
}
