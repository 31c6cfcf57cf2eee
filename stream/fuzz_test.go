package stream

import (
	"bytes"
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"
)

// fuzzMessage parses bytes as messages of the type of like. A message that is
// accepted must be the same when it is encoded again.
func fuzzMessage(f *testing.F, like message) {
	kind := reflect.TypeOf(like).Elem()
	for _, m := range messages {
		if reflect.TypeOf(m.got) == reflect.TypeOf(like) {
			f.Add([]byte(m.wire))
		}
	}
	f.Fuzz(func(t *testing.T, wire []byte) {
		got, again := reflect.New(kind).Interface().(message), reflect.New(kind).Interface().(message)
		if got.UnmarshalBinary(wire) != nil {
			return
		}
		short, err := got.AppendBinary(nil)
		require.NoError(t, err)
		require.LessOrEqual(t, len(short), len(wire)) // varints may have been longer than need be
		if len(short) == len(wire) {
			require.True(t, bytes.Equal(wire, short))
		}
		require.NoError(t, again.UnmarshalBinary(short))
		require.Equal(t, got, again)
	})
}

func FuzzLimits(f *testing.F) { fuzzMessage(f, &limits{}) }
func FuzzHeader(f *testing.F) { fuzzMessage(f, &header{}) }
func FuzzAccept(f *testing.F) { fuzzMessage(f, &accept{}) }
func FuzzGrant(f *testing.F)  { fuzzMessage(f, &grant{}) }
func FuzzEnd(f *testing.F)    { fuzzMessage(f, &end{}) }
func FuzzCancel(f *testing.F) { fuzzMessage(f, &stop{}) }
func FuzzReject(f *testing.F) { fuzzMessage(f, &stop{}) }
func FuzzDone(f *testing.F)   { fuzzMessage(f, &done{}) }

func FuzzPart(f *testing.F) {
	f.Add([]byte("\x01\xac\x02\x02\x03abc"))
	f.Fuzz(func(t *testing.T, wire []byte) {
		p, err := parsePart(wire)
		if err != nil {
			return
		}
		require.NotEmpty(t, p.data)
		require.LessOrEqual(t, p.count, len(p.data))
		short := append(appendPartHeader(nil, p), p.data...)
		require.LessOrEqual(t, len(short), len(wire))
		again, err := parsePart(short)
		require.NoError(t, err)
		require.Equal(t, p, again)
	})
}

// FuzzAssembly gives an assembly the parts that a script names, with twelve
// bits of an offset and the length of each, and resumes it somewhere. What it
// accepts is returned in order, and it knows how much it holds.
func FuzzAssembly(f *testing.F) {
	f.Add([]byte{0, 0, 9, 0, 20, 5, 0, 9, 11}, uint16(3))
	f.Fuzz(func(t *testing.T, script []byte, base uint16) {
		all := content(1 << 12)
		a := assembly{limit: 1 << 12}
		var got []byte
		for resumed := false; len(script) >= 3; script = script[3:] {
			at, size := int(script[0]&15)<<8+int(script[1]), 1+int(script[2])
			_, err := a.add(partOf(all, min(at, len(all)-1), min(at+size, len(all))))
			require.True(t, err == nil || bytes.Contains([]byte(err.Error()), []byte("overlap")), "%v", err)
			if !resumed && script[0] >= 128 {
				a.resume(int64(base % (1 << 12)))
				resumed = true
			}
			held := int64(0)
			for _, b := range append(a.ready, a.parked...) {
				held += b.cost()
			}
			require.Equal(t, held, a.held)
			require.LessOrEqual(t, a.end(), a.limit)
			if resumed && script[0]&16 != 0 {
				got = append(got, takeAll(&a)...)
				from := int(a.next) - len(got)
				require.GreaterOrEqual(t, from, 0)
				require.True(t, bytes.Equal(all[from:a.next], got))
			}
		}
	})
}
