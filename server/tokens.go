package server

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
)

// ParseTokens reads a list of tokens as it stands in a file: a JSON array. Unknown
// fields are refused; the error quotes nothing of what it read.
func ParseTokens(data []byte) ([]Token, error) {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	var tokens []Token
	if err := dec.Decode(&tokens); err != nil {
		return nil, errors.New("server: tokens: want a JSON list of {name, role, sha256 or token, org_id}")
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("server: tokens: something follows the list")
	}
	if err := checkTokens(tokens); err != nil {
		return nil, err
	}
	return tokens, nil
}
