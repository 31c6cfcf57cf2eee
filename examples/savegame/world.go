package main

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"

	"github.com/vmihailenco/msgpack/v5"
)

// A generated save: the magic, the size of the records (u64, little endian), the records one after the other, and the
// terrain. It is cut off where the wanted size ends.
const (
	worldMagic  = "QUIVSAVE"
	worldHeader = len(worldMagic) + 8
	// recordShare of a save are records, at most maxRecordBytes.
	recordShare    = 4
	maxRecordBytes = 8 << 20
)

// entity is one record of a generated save.
type entity struct {
	ID        uint64
	Kind      string
	X, Y, Z   float32
	Health    int16
	Inventory []stack
}

type stack struct {
	Item  string
	Count int
}

var (
	kinds = []string{"player", "villager", "wolf", "chest", "boat", "beacon"}
	items = []string{"plank", "rope", "lantern", "iron bar", "bread", "map", "arrow", "compass"}
)

// generateWorld writes a save of exactly size bytes; the same seed makes the same save.
func generateWorld(w io.Writer, size int64, seed uint64) error {
	rnd := rand.New(rand.NewPCG(seed, 0))
	records, err := generateRecords(rnd, min(size/recordShare, maxRecordBytes))
	if err != nil {
		return err
	}
	head := binary.LittleEndian.AppendUint64([]byte(worldMagic), uint64(len(records)))
	b := bufio.NewWriterSize(w, 256<<10)
	var seeds [32]byte
	binary.LittleEndian.PutUint64(seeds[:], seed)
	parts := io.MultiReader(bytes.NewReader(head), bytes.NewReader(records), rand.NewChaCha8(seeds))
	if _, err := io.CopyN(b, parts, size); err != nil {
		return fmt.Errorf("generating a save: %w", err)
	}
	return b.Flush()
}

// generateRecords returns as many entities as fit.
func generateRecords(rnd *rand.Rand, size int64) ([]byte, error) {
	var b []byte
	for id := uint64(1); ; id++ {
		e := generateEntity(rnd, id)
		record, err := msgpack.Marshal(&e)
		if err != nil {
			return nil, fmt.Errorf("generating a save: %w", err)
		}
		if int64(len(b)+len(record)) > size {
			return b, nil
		}
		b = append(b, record...)
	}
}

func generateEntity(rnd *rand.Rand, id uint64) entity {
	e := entity{
		ID: id, Kind: kinds[rnd.IntN(len(kinds))], Health: int16(rnd.IntN(101)),
		X: rnd.Float32() * 4096, Y: rnd.Float32() * 256, Z: rnd.Float32() * 4096,
	}
	for range rnd.IntN(5) {
		e.Inventory = append(e.Inventory, stack{items[rnd.IntN(len(items))], 1 + rnd.IntN(64)})
	}
	return e
}
