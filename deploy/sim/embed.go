package sim

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"strconv"
)

const (
	defaultDimensions = 64
	maxDimensions     = 4096
	maxInputs         = 2048
)

type embeddingRequest struct {
	Model          string          `json:"model"`
	Input          json.RawMessage `json:"input"`
	EncodingFormat string          `json:"encoding_format"`
	Dimensions     *int            `json:"dimensions"`
}

// inputs returns the texts and how many tokens each has. Token lists count as they are.
func (r *embeddingRequest) inputs() (texts []string, tokens int, err error) {
	var one string
	var ids []int
	var lists [][]int
	switch {
	case json.Unmarshal(r.Input, &one) == nil && len(r.Input) > 0 && r.Input[0] == '"':
		texts = []string{one}
	case json.Unmarshal(r.Input, &texts) == nil:
	case json.Unmarshal(r.Input, &ids) == nil:
		return []string{fmt.Sprint(ids)}, len(ids), nil
	case json.Unmarshal(r.Input, &lists) == nil:
		texts = nil
		for _, list := range lists {
			texts = append(texts, fmt.Sprint(list))
			tokens += len(list)
		}
		return texts, tokens, nil
	default:
		return nil, 0, errors.New("input: must be a text, a list of texts or token lists")
	}
	if len(texts) == 0 || len(texts) > maxInputs {
		return nil, 0, fmt.Errorf("input: %d texts are not within 1 and %d", len(texts), maxInputs)
	}
	for _, text := range texts {
		tokens += CountTokens(text)
	}
	return texts, tokens, nil
}

func (c *call) embed(mem *scratch, key string) {
	var req embeddingRequest
	err := json.Unmarshal(mem.body.Bytes(), &req)
	c.entry.Model = req.Model
	c.s.ledger.begin(&c.entry)
	if err != nil {
		c.refuse(400, "invalid_request_error", "", "body: "+err.Error())
		return
	}
	if _, ok := c.admit(key, req.Model, true); !ok {
		return
	}
	texts, tokens, err := req.inputs()
	dimensions := defaultDimensions
	if req.Dimensions != nil {
		dimensions = *req.Dimensions
	}
	switch {
	case err != nil:
	case dimensions < 1 || dimensions > maxDimensions:
		err = fmt.Errorf("dimensions: %d is not within 1 and %d", dimensions, maxDimensions)
	case req.EncodingFormat != "" && req.EncodingFormat != "float" && req.EncodingFormat != "base64":
		err = fmt.Errorf("encoding_format: %q is neither float nor base64", req.EncodingFormat)
	}
	if err != nil {
		c.refuse(400, "invalid_request_error", "invalid_value", err.Error())
		return
	}
	if !c.survives(false) {
		return
	}
	c.wait(c.ttft())
	b := append(mem.out[:0], `{"object":"list","data":[`...)
	for i, text := range texts {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, `{"object":"embedding","index":`...)
		b = strconv.AppendInt(b, int64(i), 10)
		b = append(b, `,"embedding":`...)
		b = appendVector(b, vector(text, dimensions), req.EncodingFormat == "base64")
		b = append(b, '}')
	}
	b = append(b, `],"model":`...)
	b = appendQuoted(b, req.Model)
	b = append(b, `,"usage":{"prompt_tokens":`...)
	b = strconv.AppendInt(b, int64(tokens), 10)
	b = append(b, `,"total_tokens":`...)
	b = strconv.AppendInt(b, int64(tokens), 10)
	b = append(b, `}}`...)
	mem.out = b
	c.entry.InputTokens = tokens
	c.end(200, Completed)
	c.check(writeJSON(c.w, 200, b))
}

// vector is of length 1 and a function of the text alone.
func vector(text string, dimensions int) []float32 {
	h := fnv.New64a()
	h.Write([]byte(text))
	seed, norm := h.Sum64(), 0.0
	values := make([]float64, dimensions)
	for i := range values {
		values[i] = float64(int64(mix(seed+uint64(i)))) / math.MaxInt64
		norm += values[i] * values[i]
	}
	out := make([]float32, dimensions)
	for i := range out {
		out[i] = float32(values[i] / math.Sqrt(norm))
	}
	return out
}

func appendVector(b []byte, v []float32, packed bool) []byte {
	if packed {
		raw := make([]byte, 0, 4*len(v))
		for _, x := range v {
			raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(x))
		}
		b = append(b, '"')
		b = base64.StdEncoding.AppendEncode(b, raw)
		return append(b, '"')
	}
	for i, x := range v {
		b = append(b, "[,"[min(i, 1)])
		b = strconv.AppendFloat(b, float64(x), 'g', -1, 32)
	}
	return append(b, ']')
}
