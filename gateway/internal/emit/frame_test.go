package emit

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func frameOf(k kind, seq uint64, payload []byte) []byte {
	f := append(beginFrame(nil, k, seq), payload...)
	sealFrame(f)
	return f
}

func scan(t require, data []byte) (frames []frame, sc *scanner) {
	sc = newScanner(bytes.NewReader(data), 0, int64(len(data)))
	for {
		f, err := sc.next()
		if errors.Is(err, io.EOF) {
			return frames, sc
		}
		if err != nil {
			t.Fatalf("%v", err)
		}
		f.payload = bytes.Clone(f.payload)
		frames = append(frames, f)
	}
}

// Whatever lies between whole frames, all of them are found, and every other byte is counted.
func TestScannerFindsEveryWholeFrame(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var data []byte
		var want []uint64
		garbage := int64(0)
		for i := range rapid.IntRange(0, 8).Draw(t, "frames") {
			f := frameOf(kindEnd, uint64(i), rapid.SliceOfN(rapid.Byte(), 0, 300).Draw(t, "payload"))
			switch rapid.IntRange(0, 4).Draw(t, "fate") {
			case 0: // one byte is another
				f[rapid.IntRange(0, len(f)-1).Draw(t, "at")] ^= rapid.ByteRange(1, 255).Draw(t, "flip")
				garbage += int64(len(f))
			case 1: // cut short, and not made whole by what follows
				cut := rapid.IntRange(0, len(f)-1).Draw(t, "cut")
				f[cut] ^= 0xff
				f = f[:cut+1]
				garbage += int64(len(f))
			case 2: // after zeros, as a host's crash leaves them
				zeros := make([]byte, rapid.IntRange(1, 100).Draw(t, "zeros"))
				garbage += int64(len(zeros))
				f = append(zeros, f...)
				want = append(want, uint64(i))
			default:
				want = append(want, uint64(i))
			}
			data = append(data, f...)
		}
		frames, sc := scan(t, data)
		var got []uint64
		for _, f := range frames {
			got = append(got, f.seq)
		}
		if !slices.Equal(got, want) {
			t.Fatalf("found %v, want %v", got, want)
		}
		if lost := sc.skipped + sc.end - sc.good; lost != garbage {
			t.Fatalf("%d bytes counted as lost, want %d", lost, garbage)
		}
	})
}

func TestScannerReadsFramesLargerThanItsWindow(t *testing.T) {
	big := bytes.Repeat([]byte("x"), 3*windowBytes)
	data := slices.Concat(frameOf(kindAck, 1, nil), frameOf(kindEnd, 2, big), frameOf(kindVoid, 3, nil))
	frames, sc := scan(t, data)
	if len(frames) != 3 || !bytes.Equal(frames[1].payload, big) || sc.skipped != 0 {
		t.Fatalf("%d frames, %d skipped", len(frames), sc.skipped)
	}
}

func TestAcksRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := rapid.SliceOfDistinct(rapid.Uint64(), rapid.ID).Draw(t, "seqs")
		frames, _ := scan(t, appendAcks(nil, slices.Clone(want)))
		var got []uint64
		frames[0].acks(func(seq uint64) { got = append(got, seq) })
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Fatalf("got %v, want %v", got, want)
		}
	})
}

func TestSeqSet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := rapid.SliceOf(rapid.Uint64Range(0, 100_000)).Draw(t, "in")
		set := seqSet{}
		for _, n := range in {
			set.add(n)
		}
		n := rapid.Uint64Range(0, 100_000).Draw(t, "n")
		if set.has(n) != slices.Contains(in, n) {
			t.Fatalf("has %d is %v", n, set.has(n))
		}
	})
}

func FuzzScanner(f *testing.F) {
	f.Add(slices.Concat(frameOf(kindStart, 1, []byte("\x00{}")), frameOf(kindAck, 0, []byte{1, 2, 3})))
	f.Add([]byte(magic + magic + "\x09\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, data []byte) {
		frames, sc := scan(t, data)
		total := sc.skipped + sc.end - sc.good
		for _, fr := range frames {
			total += fr.size
			fr.acks(func(uint64) {})
			fr.text()
			if r, err := readRecord(fr); err == nil && r.event == nil && r.refused == nil {
				t.Fatal("a record of nothing")
			}
		}
		if total != int64(len(data)) {
			t.Fatalf("%d of %d bytes accounted for", total, len(data))
		}
	})
}
