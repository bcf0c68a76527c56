package consume

import "bytes"

var (
	consideredBegin = []byte(`,"considered":[`)
	consideredEnd   = []byte(`,"started_at":`)
)

// cutConsidered splits the list of candidates off an event as Turnout writes it: the list is kept as
// it came and need not be taken apart and put together again, which would be a third of all decoding.
// ok is false where the record looks otherwise.
func cutConsidered(value []byte) (rest, considered []byte, ok bool) {
	begin := bytes.Index(value, consideredBegin)
	if begin < 0 {
		return nil, nil, false
	}
	list := value[begin+len(consideredBegin)-1:]
	end := endOfList(list)
	if end < 0 || !bytes.HasPrefix(list[end:], consideredEnd) {
		return nil, nil, false
	}
	rest = make([]byte, 0, len(value)-end)
	rest = append(rest, value[:begin]...)
	rest = append(rest, list[end:]...)
	return rest, list[:end], true
}

// endOfList returns the length of the JSON list that text begins with, or -1. Objects in it may hold
// anything but objects; lists in it are not expected.
func endOfList(text []byte) int {
	inObject := false
	for i := 1; i < len(text); i++ {
		switch text[i] {
		case '"':
			for i++; i < len(text) && text[i] != '"'; i++ {
				if text[i] == '\\' {
					i++
				}
			}
		case '{':
			if inObject {
				return -1
			}
			inObject = true
		case '}':
			if !inObject {
				return -1
			}
			inObject = false
		case '[':
			return -1
		case ']':
			if inObject {
				return -1
			}
			return i + 1
		}
	}
	return -1
}
