package jsonx

// EachField reads an object field by field; a value that take does not read is skipped. What is no
// object is skipped as a whole. The key is valid during the call.
func (c *Cursor) EachField(take func(key []byte)) {
	if c.Kind() != Object {
		c.Skip()
		return
	}
	for f := c.Object(); c.Next(&f); {
		take(f.Key)
	}
}

// EachItem reads an array element by element; an element that take does not read is skipped. What is
// no array is skipped as a whole.
func (c *Cursor) EachItem(take func(i int)) {
	if c.Kind() != Array {
		c.Skip()
		return
	}
	for a := c.Array(); c.NextItem(&a); {
		take(a.Index)
	}
}

// RawString reads a value and returns it as it stands, quotes included, if it is a string; else nil.
func (c *Cursor) RawString() []byte {
	if c.Kind() != String {
		c.Skip()
		return nil
	}
	return c.Raw()
}

// RawValue reads a value and returns it as it stands; nil for null.
func (c *Cursor) RawValue() []byte {
	if c.Kind() == Null {
		c.Skip()
		return nil
	}
	return c.Raw()
}

// RawText is the text of a raw string; "" for what is none.
func RawText(raw []byte) string {
	if len(raw) < 2 || raw[0] != '"' {
		return ""
	}
	body := raw[1 : len(raw)-1]
	for _, b := range body {
		if b == '\\' {
			return string(Unescape(nil, body))
		}
	}
	return string(body)
}
