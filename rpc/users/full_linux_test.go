package users

import (
	"os"
	"os/signal"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// A disk that was full while a token was added left a piece of its line, and
// nobody could log in any more.
func TestAFullDiskSpoilsNoTokenFile(t *testing.T) {
	path := fileOf(t, "ann:"+alpha+"\n")
	before, err := os.ReadFile(path)
	require.NoError(t, err)
	signal.Ignore(syscall.SIGXFSZ)
	var limit unix.Rlimit
	require.NoError(t, unix.Getrlimit(unix.RLIMIT_FSIZE, &limit))
	require.NoError(t, unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: uint64(len(before)) + 10, Max: limit.Max}))
	_, err = Add(path, "bob")
	require.NoError(t, unix.Setrlimit(unix.RLIMIT_FSIZE, &limit))
	require.ErrorIs(t, err, syscall.EFBIG)
	after, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(before), string(after))
	u, err := Open(path)
	require.NoError(t, err)
	_, err = u.Identify([]byte(alpha), time.Now())
	require.NoError(t, err)
}
