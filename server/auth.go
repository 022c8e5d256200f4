package server

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"strings"

	"dibs/api"
)

// keys are the tokens as they are compared.
type keys []struct {
	sum  [sha256.Size]byte
	who  Token
	rank int
}

func newKeys(tokens []Token) (keys, error) {
	var out keys
	for _, t := range tokens {
		sum, err := t.hash()
		if err != nil {
			return nil, err
		}
		t.Secret, t.SHA256 = "", "" // nothing behind this line needs them
		out = append(out, struct {
			sum  [sha256.Size]byte
			who  Token
			rank int
		}{sum, t, t.Role.rank()})
	}
	return out, nil
}

// find is whose secret it is. It takes the same time whoever it is, and nobody's.
func (k keys) find(secret string) (Token, bool) {
	sum := sha256.Sum256([]byte(secret))
	found := -1
	for i := range k {
		found = subtle.ConstantTimeSelect(subtle.ConstantTimeCompare(k[i].sum[:], sum[:]), i, found)
	}
	if found < 0 {
		return Token{}, false
	}
	return k[found].who, true
}

// admit says who asks, or why they may not.
func (s *Server) admit(r *http.Request, need Role) (Token, *api.Problem) {
	scheme, secret, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	secret = strings.TrimSpace(secret)
	if !strings.EqualFold(scheme, "Bearer") || secret == "" {
		return Token{}, api.NewProblem(api.CodeUnauthorized, "no bearer token")
	}
	who, ok := s.keys.find(secret)
	if !ok {
		return Token{}, api.NewProblem(api.CodeUnauthorized, "the token is not known here")
	}
	if who.Role.rank() < need.rank() {
		return who, api.NewProblem(api.CodeForbidden, "needs role "+string(need)+", the token has "+string(who.Role))
	}
	return who, nil
}

// challenge is what a client is told to bring, RFC 6750.
func challenge(code string, tried bool) string {
	switch {
	case code == api.CodeForbidden:
		return `Bearer realm="dibs", error="insufficient_scope"`
	case tried:
		return `Bearer realm="dibs", error="invalid_token"`
	}
	return `Bearer realm="dibs"`
}

// who is the token of the request; set for every path that needs one.
func who(ctx context.Context) Token {
	if v := visitOf(ctx); v != nil {
		return v.who
	}
	return Token{}
}

// bound refuses what a token that is bound to an org has no business with.
func bound(ctx context.Context) error {
	if org := who(ctx).Org; org != "" {
		return problem{api.NewProblem(api.CodeForbidden, "the token is bound to org "+org+"; bots and claims are everybody's")}
	}
	return nil
}
