package demo

import (
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"strings"
)

// generate makes a save of exactly size bytes; the same seed makes the same one. Like a game's it is records, which compress,
// and terrain, which does not: so much of that that what travels is about the size.
func generate(path string, size int64, seed uint64) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	records := strings.Repeat("a chest at 17 42 with 1 lantern\n", int(min(size, 1<<30)/512)) // a sixteenth
	var seeds [32]byte
	binary.LittleEndian.PutUint64(seeds[:], seed)
	_, err = io.CopyN(f, io.MultiReader(strings.NewReader(records), rand.NewChaCha8(seeds)), size)
	return errors.Join(err, f.Close())
}
