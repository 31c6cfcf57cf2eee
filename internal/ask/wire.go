package ask

import (
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/quivernet/quiver/internal/wire"
	"github.com/quivernet/quiver/internal/words"
)

// A question and its answer are the arguments of two reliable calls on the actor's channel:
//
//	question  number × 2, varint; the argument
//	cancel    number × 2 + 1, varint: nobody is waiting for the answer any more
//	answer    number, varint; verdict u8; then, by verdict:
//	          Answered: the result
//	          Refused, Failed: a code, varint, and a text in UTF-8
//
// Each end numbers its questions on a connection from 1 and never reuses a number. A question
// has at most one answer.

// MaxText is the maximum size of an error text in bytes, which is enough for a sentence. Cut
// shortens longer ones.
const MaxText = 512

// A Verdict says how a question was answered.
type Verdict uint8

const (
	Answered    Verdict = iota
	Refused             // the handler returned an error
	Failed              // the result can't be encoded, or the argument is invalid
	Unbound             // there is no handler
	NotOwner            // the asking client doesn't own the actor
	RateLimited         // the limit in the RPC's declaration was exceeded
	TooMany             // the answering side allows no more open questions
	Blocked             // the answering side blocks the method for now

	verdicts
)

// An Answer is a parsed answer.
type Answer struct {
	Number  uint64
	Verdict Verdict
	Result  []byte // set for Answered; aliases the message
	Code    uint32 // set for Refused and Failed
	Text    string // set for Refused and Failed
}

// AppendQuestion appends the header of a question. The caller appends the argument.
func AppendQuestion(b []byte, number uint64) []byte { return binary.AppendUvarint(b, number<<1) }

// AppendCancel appends a cancel.
func AppendCancel(b []byte, number uint64) []byte { return binary.AppendUvarint(b, number<<1|1) }

// ReadQuestion parses a question or a cancel. argument aliases b.
func ReadQuestion(b []byte) (number uint64, cancel bool, argument []byte, err error) {
	head, n := binary.Uvarint(b)
	number = head >> 1
	cancel = head&1 == 1
	switch {
	case number == 0: // also if there is no varint
		return 0, false, nil, fmt.Errorf("question of %s without a number", words.Bytes(len(b)))
	case cancel && len(b) > n:
		return 0, false, nil, fmt.Errorf("cancel of question %d: %s left over", number, words.Bytes(len(b)-n))
	}
	return number, cancel, b[n:], nil
}

// AppendAnswer appends an answer without a result, or the header of one to which the caller appends
// the result.
func AppendAnswer(b []byte, number uint64, v Verdict) []byte {
	return append(binary.AppendUvarint(b, number), byte(v))
}

// AppendError appends an answer with an error. v is Refused or Failed.
func AppendError(b []byte, number uint64, v Verdict, code uint32, text string) []byte {
	b = binary.AppendUvarint(AppendAnswer(b, number, v), uint64(code))
	return append(b, Cut(text)...)
}

// Cut shortens a text to MaxText bytes: see [words.Cut].
func Cut(text string) string { return words.Cut(text, MaxText) }

// ReadAnswer parses an answer.
func ReadAnswer(b []byte) (a Answer, err error) {
	r := wire.Reader{Left: b}
	a.Number = r.Positive(wire.Any, "no number")
	a.Verdict = Verdict(r.Byte())
	switch a.Verdict {
	case Answered:
		a.Result = r.Take(len(r.Left))
	case Refused, Failed:
		a.Code = uint32(r.Uvarint(1<<32 - 1))
		if len(r.Left) > MaxText {
			r.Fail(fmt.Errorf("text has %d bytes; the limit is %d", len(r.Left), MaxText))
		}
		a.Text = strings.ToValidUTF8(string(r.Take(len(r.Left))), "")
	}
	if a.Verdict >= verdicts {
		r.Fail(fmt.Errorf("unknown verdict %d", a.Verdict))
	}
	if err := r.End(); err != nil {
		return a, fmt.Errorf("answer of %s to question %d: %w", words.Bytes(len(b)), a.Number, err)
	}
	return a, nil
}
