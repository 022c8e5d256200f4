package server

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"dibs/api"
	"dibs/call"
)

// order is the order that a request asks for, with the server's and the token's
// defaults. It has no id yet.
func (s *Server) order(t Token, b api.PlaceCall, now time.Time) (call.Order, error) {
	if t.Org != "" && b.Org != "" && b.Org != t.Org {
		return call.Order{}, problem{api.NewProblem(api.CodeForbidden, "the token is bound to org "+t.Org)}
	}
	class := call.ClassAPI
	if b.Campaign != "" {
		class = call.ClassCampaign
	}
	o := call.Order{
		V: call.Version, Org: cmp.Or(b.Org, t.Org), Campaign: b.Campaign, Class: cmp.Or(b.Class, class),
		Region: cmp.Or(b.Region, s.cfg.Region), Pool: b.Pool, From: cmp.Or(b.From, s.cfg.From), To: b.To,
		Flow: call.Flow(b.Flow), Greeting: call.Greeting(b.Greeting), Needs: b.Needs, Metadata: given(b.Metadata),
		NotBefore: b.NotBefore.UTC(), NotAfter: b.NotAfter.UTC(), Hours: b.Hours, TZ: b.TZ,
		RingMS: b.RingMS, MaxCallMS: b.MaxCallMS, Detect: b.Detect, CallBack: b.CallBack, CallbackURL: b.CallbackURL, NoWait: b.NoWait,
		QueuedAt: now.UTC().Round(0),
	}
	o.Flow.Inline = given(o.Flow.Inline)
	if p := b.Retry; p != nil {
		o.Retry = &call.RetryPolicy{MaxAttempts: p.MaxAttempts, BackoffMS: p.BackoffMS, On: p.On}
	}
	return o, nil
}

// given is raw, or nothing when it is the null that says so.
func given(raw json.RawMessage) json.RawMessage {
	if string(raw) == "null" {
		return nil
	}
	return raw
}

// check reports what is wrong with a whole order, as the problem of its field.
func check(o call.Order) error {
	_, err := o.Encode()
	if err == nil {
		return nil
	}
	if fe, ok := errors.AsType[*call.FieldError](err); ok {
		return field(fe.Field, fe.Detail)
	}
	if errors.Is(err, call.ErrTooLarge) {
		return field("", fmt.Sprintf("the order is larger than %d bytes; put the flow behind a URL", call.MaxOrder))
	}
	return field("", "cannot be written as JSON")
}

// callID is the id of the call that a token asks for with an idempotency key. It
// says nothing of either to somebody who sees it.
func callID(token, org, key string) string {
	h := sha256.New()
	for _, part := range []string{token, org, key} {
		_ = binary.Write(h, binary.BigEndian, uint64(len(part))) // a hash takes everything
		h.Write([]byte(part))
	}
	return "call_" + strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(h.Sum(nil))[:26])
}

// newCallID is a random one of the same look.
func newCallID() string { return "call_" + strings.ToLower(rand.Text()[:26]) }

// requestHash is the same for two requests that say the same, whatever the order of
// their fields and their white space.
func requestHash(b api.PlaceCall) (string, error) {
	b.NotBefore, b.NotAfter = b.NotBefore.UTC(), b.NotAfter.UTC()
	data, err := json.Marshal(b)
	if err != nil {
		return "", err
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	var tree any
	if err := dec.Decode(&tree); err != nil {
		return "", err
	}
	if data, err = json.Marshal(tree); err != nil { // sorts the names
		return "", err
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:]), nil
}

// MaxKey is the length of the longest idempotency key.
const MaxKey = 255

// idempotencyKey is the key of a request, "" when there is none. An empty one is a
// mistake in the caller's program, and is not taken for none.
func idempotencyKey(values []string) (string, error) {
	if len(values) == 0 {
		return "", nil
	}
	key := values[0]
	ok := len(values) == 1 && len(key) >= 1 && len(key) <= MaxKey
	for i := range len(key) {
		ok = ok && key[i] >= ' ' && key[i] <= '~'
	}
	if !ok {
		return "", problem{api.NewProblem(api.CodeBadKey, fmt.Sprintf("want one key of 1 to %d printable ASCII characters", MaxKey))}
	}
	return key, nil
}
