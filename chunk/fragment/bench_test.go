package fragment

import "testing"

func BenchmarkAppend(b *testing.B) {
	f := Fragment{Sequence: 1, Index: 0, Count: 3, Data: content(Size, 1)}
	packet := make([]byte, 0, 2*Size)
	b.SetBytes(Size)
	b.ReportAllocs()
	for b.Loop() {
		packet = Append(packet[:0], protocol, f)
	}
}

func BenchmarkParse(b *testing.B) {
	packet := Append(nil, protocol, Fragment{Sequence: 1, Index: 0, Count: 3, Data: content(Size, 1)})
	b.SetBytes(Size)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Parse(packet, protocol); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkReassembler sends and receives blocks of 4 fragments and of 255.
func BenchmarkReassembler(b *testing.B) {
	for name, size := range map[string]int{"4": 4 * Size, "255": MaxBlock} {
		b.Run(name, func(b *testing.B) {
			r, block, packet := newReassembler(b, Config{}), content(size, 1), make([]byte, 0, 2*Size)
			var n uint16
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for b.Loop() {
				parts, _ := Split(n, block)
				n++
				for i := range parts.Len() {
					packet = Append(packet[:0], protocol, parts.At(i))
					if _, _, err := r.Receive(epoch, packet); err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}
