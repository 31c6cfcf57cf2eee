package desk

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"log/slog"
	"math"
	"os"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/time/rate"

	"github.com/quivernet/quiver/examples/savegame/users"
	"github.com/quivernet/quiver/examples/savegame/versions"
)

// Who had a code when his token was revoked came in again by it.
func TestCodesOfARevokedToken(t *testing.T) {
	h := newHost(t, versions.Config{}, nil)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		h.server.Watch(ctx, 10*time.Millisecond)
		close(ended)
	}()
	defer func() { stop(); <-ended }()
	thief := h.dial()
	code, err := thief.Invite(t.Context())
	require.NoError(t, err)
	_, err = users.Revoke(h.tokens, "alice", "")
	require.NoError(t, err)
	<-thief.Conn().Done()
	h.config.Token = ""
	_, _, err = h.dial().Redeem(t.Context(), code, "pc", "secret")
	require.ErrorIs(t, err, users.ErrCode)
}

// A server made its clients take fifty times the memory of the list that it sent.
func TestListsTakeNoMoreMemoryThanTheySay(t *testing.T) {
	for name, element := range map[string]string{"objects": "{}", "nothing": "null"} {
		t.Run(name, func(t *testing.T) {
			list := []byte("[" + strings.Repeat(element+",", 1<<20/len(element)) + element + "]")
			frame := append(binary.AppendUvarint(nil, uint64(len(list))), list...)
			heard := &talk{ctx: t.Context(), hears: bufio.NewReaderSize(bytes.NewReader(frame), sizeBuffer)}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, _ = heard.hearVersions()
			runtime.ReadMemStats(&after)
			require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(20*len(list)))
		})
	}
}

// Each wrong code of a guest had the server read and hash its whole token file, fifty times a second for each connection.
func TestWrongCodesOfGuestsReadNoTokens(t *testing.T) {
	h := newHost(t, versions.Config{}, nil)
	h.config.Token = ""
	guest := h.dial()
	require.NoError(t, os.Remove(h.tokens))
	_, _, err := guest.Redeem(t.Context(), "ABCD-EFGH-IJKL", "pc", "secret")
	require.ErrorIs(t, err, users.ErrCode)
}

// A list was written before its memory was asked for: a user with many saves who asked for lists over many connections had the server hold
// 16 of them for each, and refuse them then.
func TestListsAreNotWrittenWithoutRoom(t *testing.T) {
	long := strings.Repeat("m", versions.MaxName)
	list := make([]versions.Version, 10_000)
	for i := range list {
		list[i] = versions.Version{Name: long, Number: math.MaxInt, Kind: versions.Damaged, Base: math.MinInt, Size: math.MinInt64, Files: math.MinInt,
			Time: time.Date(9999, 12, 31, 23, 59, 59, 999_999_999, time.FixedZone("", 14*3600)), Machine: long}
	}
	m := memory{of: make(map[string]int64)}
	text, given, err := m.textOf("alice", list)
	require.NoError(t, err)
	require.LessOrEqual(t, int64(len(text)), m.all)
	given()
	require.Zero(t, m.all)
	require.NoError(t, m.take("alice", userMemory))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, _, err = m.textOf("alice", list)
	runtime.ReadMemStats(&after)
	require.ErrorIs(t, err, ErrBusy)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(64<<10))
}

// Each request that was refused left a line in the log, 400 a second for each connection.
func TestRefusalsDoNotFillTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		k := &clerk{log: slog.New(slog.NewTextHandler(&log, nil)), lines: rate.NewLimiter(1, refusalLines)}
		for range 1000 {
			require.ErrorContains(t, k.refuse("Get", versions.ErrNoSave), versions.ErrNoSave.Error())
		}
		require.Equal(t, refusalLines, strings.Count(log.String(), "\n"))
		time.Sleep(time.Second)
		require.Error(t, k.refuse("Get", versions.ErrNoSave))
		require.Equal(t, refusalLines+1, strings.Count(log.String(), "\n"))
		require.Contains(t, log.String(), "more=980")
	})
}

// Four users who announced manifests of 32 MiB, and sent none, had all others' puts, gets and lists refused for as long as they liked.
func TestFourUsersTakeNotAllMemory(t *testing.T) {
	m := memory{of: make(map[string]int64)}
	for i := range manifestMemory / userMemory {
		require.NoError(t, m.take(fmt.Sprint("mallory", i), userMemory))
	}
	require.NoError(t, m.take("alice", 1000))
	require.NoError(t, m.take("alice", littleMemory-1000))
	require.ErrorIs(t, m.take("alice", 1), ErrBusy, "it is no little")
	for i := range keptMemory/littleMemory - 1 {
		require.NoError(t, m.take(fmt.Sprint("user", i), littleMemory))
	}
	require.ErrorIs(t, m.take("bob", 1), ErrBusy)
	m.give("mallory0", userMemory)
	require.ErrorIs(t, m.take("alice", userMemory/2), ErrBusy, "what is kept is used up")
	m.give("mallory1", userMemory)
	m.give("mallory2", userMemory)
	require.NoError(t, m.take("alice", userMemory/2))
}
