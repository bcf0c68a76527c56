package load

// Sessions numbers the sessions of a trace with block ids, from 1, one number a request. A request
// continues a session if its ids begin with all ids of an earlier request, or with all but the last,
// at least two; of several the one with the longest such beginning, then the latest. Any other
// request begins a session.
func Sessions(requests []TraceRequest) []int {
	sessions := make([]int, len(requests))
	begun := map[prefixKey]int{} // beginnings that continue a session
	last := 0
	for i, request := range requests {
		ids := request.Blocks
		var keys []prefixKey // keys[k] is of the first k+1 ids
		key := prefixKey{}
		for _, id := range ids {
			key = key.then(id)
			keys = append(keys, key)
		}
		for k := len(keys); k >= 2 && sessions[i] == 0; k-- {
			sessions[i] = begun[keys[k-1]]
		}
		if sessions[i] == 0 {
			last++
			sessions[i] = last
		}
		for _, size := range []int{len(keys) - 1, len(keys)} {
			if size >= 2 {
				begun[keys[size-1]] = sessions[i]
			}
		}
	}
	return sessions
}

// prefixKey stands for a list of ids: 128 bits, so that none of a trace's lists collide.
type prefixKey struct{ a, b uint64 }

func (k prefixKey) then(id uint64) prefixKey {
	return prefixKey{mix(k.a ^ mix(id)), mix(k.b + mix(id^0x5bd1e995) + 1)}
}
