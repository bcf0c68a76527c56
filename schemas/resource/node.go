package resource

// kind says what a node of a document is.
type kind uint8

const (
	null kind = iota
	text
	number
	boolean
	list
	object
)

var kindNames = [...]string{null: "nothing", text: "a text", number: "a number", boolean: "true or false", list: "a list", object: "an object"}

type position struct{ line, column int }

// node is a document as it was written, the same for YAML and JSON: numbers keep their digits, and
// everything knows where it stands.
type node struct {
	kind   kind
	value  string // of a scalar, as written
	items  []*node
	fields []field
	at     position
}

type field struct {
	key   string
	at    position
	value *node
}

// maxDepth bounds how deep documents may nest. Ours need 8.
const maxDepth = 40

// syntaxError is a mistake that no path leads to.
type syntaxError struct {
	at      position
	message string
}

func (e *syntaxError) Error() string { return e.message }
