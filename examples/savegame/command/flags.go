package command

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/dustin/go-humanize"
	"github.com/urfave/cli/v3"
)

// text is a flag with a value that check takes.
func text(name, value, usage string, check func(string) error) cli.Flag {
	return &cli.StringFlag{Name: name, Value: value, Usage: usage, Validator: check}
}

// oneOf is a flag that takes one of some words, the first by default.
func oneOf(name, usage string, words ...string) cli.Flag {
	return text(name, words[0], usage, func(word string) error {
		if !slices.Contains(words, word) {
			return fmt.Errorf("it is one of %s", strings.Join(words, ", "))
		}
		return nil
	})
}

// carrierFlag says over what a client's connection travels.
func carrierFlag() cli.Flag {
	return oneOf("carrier", "what moves all datagrams: `sealed` packets beside QUIC's, or quic", "sealed", "quic")
}

// sizeFlag is a flag that takes bytes.
func sizeFlag(name, value, usage string) cli.Flag {
	return text(name, value, usage, func(text string) error {
		if n, err := humanize.ParseBytes(text); err != nil || n == 0 || n > math.MaxInt64 {
			return errors.New("it is a size like 500KB, 64MiB or 1.5GB")
		}
		return nil
	})
}

// size returns the bytes of a sizeFlag, 0 when it is not given.
func (j *job) size(flag string) int64 {
	n, _ := humanize.ParseBytes(j.String(flag)) // the flag has checked it
	return int64(n)
}

// atLeast checks a number's lower bound.
func atLeast[T cmp.Ordered](least T) func(T) error {
	return func(n T) error {
		if n < least {
			return fmt.Errorf("it is at least %v", least)
		}
		return nil
	}
}
