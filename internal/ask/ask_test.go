package ask

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/testkit"
)

func TestWire(t *testing.T) {
	number, cancel, argument, err := ReadQuestion(append(AppendQuestion(nil, 300), "hello"...))
	require.NoError(t, err)
	require.EqualValues(t, 300, number)
	require.False(t, cancel)
	require.Equal(t, "hello", string(argument))
	number, cancel, _, err = ReadQuestion(AppendCancel(nil, 300))
	require.NoError(t, err)
	require.EqualValues(t, 300, number)
	require.True(t, cancel)
	for _, bad := range [][]byte{nil, {0}, {1}, {0x80}, append(AppendCancel(nil, 1), 0)} {
		_, _, _, err := ReadQuestion(bad)
		require.Error(t, err, "%x", bad)
	}

	a, err := ReadAnswer(append(AppendAnswer(nil, 7, Answered), "result"...))
	require.NoError(t, err)
	require.Equal(t, Answer{Number: 7, Result: []byte("result")}, a)
	a, err = ReadAnswer(AppendError(nil, 7, Refused, 9, "sold out"))
	require.NoError(t, err)
	require.Equal(t, Answer{Number: 7, Verdict: Refused, Code: 9, Text: "sold out"}, a)
	a, err = ReadAnswer(AppendError(nil, 7, Failed, 0, strings.Repeat("x", 2*MaxText)))
	require.NoError(t, err, "a handler's long error would end the connection")
	require.Len(t, a.Text, MaxText)
	a, err = ReadAnswer(AppendAnswer(nil, 7, TooMany))
	require.NoError(t, err)
	require.Equal(t, Answer{Number: 7, Verdict: TooMany}, a)
	for _, bad := range [][]byte{
		nil, {7}, {0, 0}, {7, byte(verdicts)}, {7, byte(Refused)}, {7, byte(TooMany), 0},
		append([]byte{7, byte(Refused), 0}, strings.Repeat("x", MaxText+1)...),
		{7, byte(Refused), 0xff, 0xff, 0xff, 0xff, 0x1f},
	} {
		_, err := ReadAnswer(bad)
		require.Error(t, err, "%x", bad)
	}
}

// TestCut: a text is cut between two characters.
func TestCut(t *testing.T) {
	cut := Cut(strings.Repeat("é", MaxText))
	require.Len(t, cut, MaxText-1)
	require.True(t, strings.HasSuffix(cut, "é…"))
	cut = Cut("x" + strings.Repeat("é", MaxText))
	require.Len(t, cut, MaxText)
	require.True(t, utf8.ValidString(cut))
	require.Equal(t, "ab", Cut("a\xffb"))
}

func FuzzRead(f *testing.F) {
	f.Add(AppendQuestion(nil, 300))
	f.Add(AppendCancel(nil, 1))
	f.Add(AppendError(nil, 7, Refused, 9, "sold out"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if number, cancel, argument, err := ReadQuestion(b); err == nil {
			again := append(AppendQuestion(nil, number), argument...)
			if cancel {
				again = AppendCancel(nil, number)
			}
			n, c, _, err := ReadQuestion(again)
			require.NoError(t, err)
			require.Equal(t, number, n)
			require.Equal(t, cancel, c)
		}
		if a, err := ReadAnswer(b); err == nil && a.Verdict > Answered {
			require.LessOrEqual(t, len(a.Text), MaxText)
			require.True(t, utf8.ValidString(a.Text))
		}
	})
}

func TestTable(t *testing.T) {
	var table Table[string]
	_, ok := table.Add("none", time.Time{})
	require.False(t, ok)
	table.SetLimit(2)
	now := time.Unix(100, 0)
	a, ok := table.Add("a", now.Add(2*time.Second))
	require.True(t, ok)
	b, ok := table.Add("b", now.Add(time.Second))
	require.True(t, ok)
	_, ok = table.Add("c", now)
	require.False(t, ok)
	_, ok = table.TakeDue(now)
	require.False(t, ok)
	q, ok := table.TakeDue(now.Add(time.Second))
	require.True(t, ok)
	require.Equal(t, "b", q)
	_, ok = table.TakeDue(now.Add(time.Second))
	require.False(t, ok)
	_, ok = table.Take(b)
	require.False(t, ok)
	c, ok := table.Add("c", now.Add(3*time.Second))
	require.True(t, ok)
	require.Equal(t, []uint64{1, 2, 3}, []uint64{a, b, c}, "no number is given twice")
	require.True(t, table.Any(func(q string) bool { return q == "a" }))
	q, ok = table.TakeIf(func(q string) bool { return q > "a" })
	require.True(t, ok)
	require.Equal(t, "c", q)
	_, ok = table.Get(a)
	require.True(t, ok)
}

// TestQuestionsWithoutATimeout wait for ever, and let none that has one wait with them.
func TestQuestionsWithoutATimeout(t *testing.T) {
	table := Table[string]{limit: 4}
	now := time.Unix(100, 0)
	for _, q := range []string{"never", "soon", "never"} {
		until := time.Time{}
		if q == "soon" {
			until = now
		}
		_, ok := table.Add(q, until)
		require.True(t, ok)
	}
	q, ok := table.TakeDue(now)
	require.True(t, ok)
	require.Equal(t, "soon", q)
	_, ok = table.TakeDue(now.Add(time.Hour))
	require.False(t, ok)
	require.Equal(t, 2, table.Len())
}

func TestTableOfThePeers(t *testing.T) {
	table := Table[int]{limit: 3}
	require.True(t, table.Put(9, 1))
	require.True(t, table.Put(2, 2))
	require.False(t, table.Put(9, 3), "taken")
	require.True(t, table.Put(5, 4))
	require.False(t, table.Put(6, 5), "full")
	_, due := table.TakeDue(time.Unix(1<<40, 0))
	require.False(t, due, "they do not end by themselves")
	for number, want := range map[uint64]int{9: 1, 2: 2, 5: 4} {
		q, ok := table.Take(number)
		require.True(t, ok)
		require.Equal(t, want, q)
	}
}

// TestTableAgainstAMap: random operations, beside a map that does the same.
func TestTableAgainstAMap(t *testing.T) {
	random := testkit.Rand(t)
	table, model := Table[uint64]{limit: 20}, map[uint64]time.Time{}
	now := time.Unix(0, 0)
	for range 20_000 {
		now = now.Add(time.Duration(random.IntN(20)) * time.Millisecond)
		switch random.IntN(4) {
		case 0, 1:
			until := now.Add(time.Duration(random.IntN(500)) * time.Millisecond)
			number, ok := table.Add(table.last+1, until)
			require.Equal(t, len(model) < 20, ok)
			if ok {
				model[number] = until
			}
		case 2:
			number := random.Uint64N(table.last + 2)
			q, ok := table.Take(number)
			_, want := model[number]
			require.Equal(t, want, ok)
			require.True(t, !ok || q == number)
			delete(model, number)
		case 3:
			for q, ok := table.TakeDue(now); ok; q, ok = table.TakeDue(now) {
				require.False(t, now.Before(model[q]))
				delete(model, q)
			}
			for _, until := range model {
				require.True(t, now.Before(until))
			}
		}
		require.Equal(t, len(model), table.Len())
	}
}
