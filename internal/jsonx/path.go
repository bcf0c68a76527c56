package jsonx

import "strconv"

// Path is the dotted path of the value that begins at offset in a valid document:
// "messages[2].content[0].type". It is empty for the document itself and where no value begins. It
// reads the document again: for error texts.
func Path(data []byte, offset int) string {
	var c Cursor
	c.ResetLoose(data)
	return string(findPath(&c, offset, nil))
}

func findPath(c *Cursor, offset int, path []byte) []byte {
	switch c.Kind() {
	case Object:
		if c.pos == offset {
			return path
		}
		for f := c.Object(); c.Next(&f); {
			if end, problem := scanValue(c.data, c.pos, c.depth); problem == "" && end <= offset {
				c.pos = end
				continue
			}
			if len(path) > 0 {
				path = append(path, '.')
			}
			path = append(path, f.Key...)
			if c.pos >= offset {
				return path
			}
			return findPath(c, offset, path)
		}
	case Array:
		if c.pos == offset {
			return path
		}
		for a := c.Array(); c.NextItem(&a); {
			if end, problem := scanValue(c.data, c.pos, c.depth); problem == "" && end <= offset {
				c.pos = end
				continue
			}
			path = append(path, '[')
			path = strconv.AppendInt(path, int64(a.Index), 10)
			path = append(path, ']')
			if c.pos >= offset {
				return path
			}
			return findPath(c, offset, path)
		}
	}
	return path
}
