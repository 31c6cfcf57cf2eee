package stream

import (
	"encoding"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// message is what all messages of the control pipe can do.
type message interface {
	encoding.BinaryAppender
	encoding.BinaryUnmarshaler
}

var (
	fullHeader = header{id: 300, kind: kindBlob, topic: "save", name: "slot 1", key: "k", hash: BLAKE3, parts: 9, size: -1}
	messages   = []struct {
		sent, got message
		wire      string
	}{
		{&limits{4, 8, 128, []Algorithm{BLAKE3, SHA256}}, &limits{}, "\x04\x08\x80\x01\x02\x02\x01"},
		{&fullHeader, &header{}, "\xac\x02\x01\x04save\x06slot 1\x01k\x02\x09\x00"},
		{&header{id: 1, kind: kindBlob, topic: "s", hash: 7, size: 127}, &header{}, "\x01\x01\x01s\x00\x00\x07\x00\x80\x01"},
		{&header{id: 1, kind: kindBlob, topic: "s", hash: NoDigest}, &header{}, "\x01\x01\x01s\x00\x00\xff\x00\x01"},
		{&header{id: 1, kind: kindArray, topic: "s", hash: SHA256, size: -1, count: 7, shape: 0x0102}, &header{}, "\x01\x02\x01s\x00\x00\x01\x00\x07\x00\x00\x00\x00\x00\x00\x01\x02"},
		{&accept{id: 1, offset: 2, index: 3, limit: 4, hasAll: true}, &accept{}, "\x01\x01\x02\x03\x04"},
		{&grant{1, 128, 3}, &grant{}, "\x01\x80\x01\x03"},
		{&end{id: 1, size: 2, count: 3, sum: []byte("abc")}, &end{}, "\x01\x02\x03\x03abc"},
		{&stop{1, stopDigest, "why"}, &stop{}, "\x01\x04\x03why"},
		{&stop{1, stopRejected, ""}, &stop{}, "\x01\x02\x00"},
		{&stop{1, stopFields, "why"}, &stop{}, "\x01\x06\x03why"},
		{&done{5}, &done{}, "\x05"},
	}
)

func TestMessagesOnTheWire(t *testing.T) {
	for _, m := range messages {
		wire, err := m.sent.AppendBinary(nil)
		require.NoError(t, err)
		require.Equal(t, m.wire, string(wire), "%+v", m.sent)
		require.NoError(t, m.got.UnmarshalBinary(wire))
		require.Equal(t, m.sent, m.got)
		for cut := range wire {
			require.ErrorIs(t, m.got.UnmarshalBinary(wire[:cut]), errMalformed, "%T cut at %d", m.got, cut)
		}
		require.ErrorIs(t, m.got.UnmarshalBinary(append(wire, 0)), errMalformed, "%T with a byte too many", m.got)
	}
}

func TestMessagesThatAreRefused(t *testing.T) {
	long := func(n int) string { return strings.Repeat("x", n) }
	tooMuch := "\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01" // 2^63
	for name, c := range map[string]struct {
		m    message
		wire string
	}{
		"limits: transfers":   {&limits{}, "\x81\x08\x01\x00\x00"},
		"limits: lanes":       {&limits{}, "\x01\x21\x00\x00"},
		"limits: early":       {&limits{}, "\x01\x01\x81\x80\x40\x00"},
		"limits: hashes":      {&limits{}, "\x01\x01\x01\x11" + long(17)},
		"header: id 0":        {&header{}, "\x00\x01\x01s\x00\x00\x01\x00\x00"},
		"header: kind":        {&header{}, "\x01\x03\x01s\x00\x00\x01\x00\x00"},
		"header: topic":       {&header{}, "\x01\x01\x41" + long(65) + "\x00\x00\x01\x00\x00"},
		"header: key":         {&header{}, "\x01\x01\x01s\x00\x81\x01" + long(129) + "\x01\x00\x00"},
		"header: no hash":     {&header{}, "\x01\x01\x01s\x00\x00\x00\x00\x00"},
		"header: a key alone": {&header{}, "\x01\x01\x01s\x00\x01k\xff\x00\x00"},
		"header: size":        {&header{}, "\x01\x01\x01s\x00\x00\x01\x00" + tooMuch},
		"end: digest":         {&end{}, "\x01\x01\x01\x41" + long(65)},
		"accept: flag":        {&accept{}, "\x01\x02\x02\x03\x04"},
		"grant: limit":        {&grant{}, "\x01" + tooMuch + "\x01"},
		"cancel: code 0":      {&stop{}, "\x01\x00\x00"},
		"cancel: code 7":      {&stop{}, "\x01\x07\x00"},
		"reject: reason":      {&stop{}, "\x01\x01\x81\x02" + long(257)},
		"done: overflow":      {&done{}, strings.Repeat("\xff", 11)},
	} {
		require.ErrorIs(t, c.m.UnmarshalBinary([]byte(c.wire)), errMalformed, name)
	}
}

func TestPartOnTheWire(t *testing.T) {
	p := part{id: 1, offset: 300, index: 2, count: 3, data: []byte("abc")}
	wire := append(appendPartHeader(nil, p), p.data...)
	require.Equal(t, "\x01\xac\x02\x02\x03abc", string(wire))
	got, err := parsePart(wire)
	require.NoError(t, err)
	require.Equal(t, p, got)

	b := newPageBlock(partBytes)
	defer b.Free()
	b.offset, b.index, b.count = 300, 2, 3
	b.append(p.data)
	require.Equal(t, wire, b.message(1))

	for _, bad := range []string{"", "\x00\x01\x00\x00x", "\x01\x01\x00\x00", "\x01\x01\x00\x02x", "\x01"} {
		_, err := parsePart([]byte(bad))
		require.ErrorIs(t, err, errMalformed, "%q", bad)
	}
}

func TestPartFitsItsRPC(t *testing.T) {
	b := newPageBlock(partBytes)
	defer b.Free()
	b.offset, b.index, b.count = 1<<62, 1<<62, partBytes
	b.append(make([]byte, partBytes))
	require.LessOrEqual(t, len(b.message(1<<62))+2, defaultRPCBytes)
	require.Empty(t, b.room())
}

func TestReasonsAreClipped(t *testing.T) {
	s := failureOf(canceled(&localError{public: strings.Repeat("ü", 200), cause: errTest})).stop(1)
	require.Equal(t, strings.Repeat("ü", 126)+"…", s.reason)
	require.LessOrEqual(t, len(s.reason), maxReasonBytes)
}

func TestStopsKeepTheirMeaning(t *testing.T) {
	for _, err := range []error{ErrCanceled, ErrRejected, ErrTooLarge, ErrDigest, ErrPanicked} {
		s := failureOf(err).stop(1)
		require.ErrorIs(t, peerFailure(s, senderSide), err)
	}
	require.ErrorIs(t, peerFailure(failureOf(errTest).stop(1), senderSide), ErrCanceled)
}
