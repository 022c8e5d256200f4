package simcarrier

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strings"
)

// element is one element of a TwiML document.
type element struct {
	name  string
	attrs map[string]string
	text  string // of itself, not of its children, without outer white space
	kids  []element
}

// What a document may be. Twilio takes 64 KB; the rest keeps a hostile one from
// costing more than its bytes.
const (
	maxTwiML    = 64 << 10
	maxDepth    = 8
	maxElements = 500
)

var errTwiML = errors.New("not a TwiML document")

// parseTwiML reads a document and returns its verbs. A document type, and with it
// every entity of its own, is refused.
func parseTwiML(doc []byte) ([]element, error) {
	if len(doc) > maxTwiML {
		return nil, fmt.Errorf("%w: more than %d bytes", errTwiML, maxTwiML)
	}
	d := xml.NewDecoder(bytes.NewReader(doc))
	var stack []element // open elements, the outermost first
	var root *element
	elements := 0
	for {
		tok, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("%w: %w", errTwiML, err)
		}
		switch t := tok.(type) {
		case xml.StartElement:
			if elements++; elements > maxElements || len(stack) == maxDepth {
				return nil, fmt.Errorf("%w: too many elements", errTwiML)
			}
			if root != nil {
				return nil, fmt.Errorf("%w: two of them", errTwiML)
			}
			e := element{name: t.Name.Local, attrs: map[string]string{}}
			for _, a := range t.Attr {
				e.attrs[a.Name.Local] = a.Value
			}
			stack = append(stack, e)
		case xml.EndElement:
			e := stack[len(stack)-1]
			e.text = strings.TrimSpace(e.text)
			stack = stack[:len(stack)-1]
			if len(stack) == 0 {
				root = &e
				continue
			}
			parent := &stack[len(stack)-1]
			parent.kids = append(parent.kids, e)
		case xml.CharData:
			if len(stack) > 0 {
				stack[len(stack)-1].text += string(t)
			}
		case xml.Directive:
			return nil, fmt.Errorf("%w: it has a document type", errTwiML)
		}
	}
	if root == nil || root.name != "Response" {
		return nil, fmt.Errorf("%w: no Response", errTwiML)
	}
	return root.kids, nil
}
