//go:build !windows

package tree

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// A work folder that somebody else has made, in /tmp, is not taken. Only root
// can make one of somebody else's.
func TestTheWorkFolderIsOnesOwn(t *testing.T) {
	target := filepath.Join(folder(t), "target")
	work, err := openWork(target)
	require.NoError(t, err)
	require.NoError(t, work.release())
	if os.Chown(work.path, 12345, -1) != nil {
		return
	}
	_, err = openWork(target)
	require.ErrorContains(t, err, "is somebody else's")
}
