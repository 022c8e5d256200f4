package twilio

import (
	"crypto/hmac"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"maps"
	"net/url"
	"slices"
	"strings"
)

// Sign is the X-Twilio-Signature of a request to address, which is the full URL
// as Twilio has it, with the form it carries (nil: none, as in the upgrade of a
// media socket). A name that comes more than once counts with each of its
// different values, in order.
func Sign(token, address string, form url.Values) string {
	mac := hmac.New(sha1.New, []byte(token))
	mac.Write([]byte(address))
	for _, name := range slices.Sorted(maps.Keys(form)) {
		values := slices.Clone(form[name])
		slices.Sort(values)
		for _, v := range slices.Compact(values) {
			mac.Write([]byte(name + v))
		}
	}
	return base64.StdEncoding.EncodeToString(mac.Sum(nil))
}

// Validate reports whether signature is that of a request to address with form.
// Twilio signs the address sometimes with its port and sometimes without, so both
// are tried. The comparison takes the same time whatever is wrong.
func Validate(token, signature, address string, form url.Values) bool {
	if token == "" || signature == "" {
		return false
	}
	ok := 0
	for _, a := range spellings(address) {
		ok |= subtle.ConstantTimeCompare([]byte(Sign(token, a, form)), []byte(signature))
	}
	return ok == 1
}

// ValidateBody is [Validate] for a request whose body is not a form: the address
// then has the body's hash in its query, and the signature covers the address alone.
func ValidateBody(token, signature, address string, body []byte) bool {
	u, err := url.Parse(address)
	if err != nil {
		return false
	}
	sum := sha256.Sum256(body)
	want, got := hex.EncodeToString(sum[:]), strings.ToLower(u.Query().Get("bodySHA256"))
	same := subtle.ConstantTimeCompare([]byte(want), []byte(got)) == 1
	return Validate(token, signature, address, nil) && same
}

// spellings are address as it is, with its standard port, and without it.
func spellings(address string) []string {
	u, err := url.Parse(address)
	if err != nil {
		return []string{address}
	}
	all := []string{address}
	port := map[string]string{"https": "443", "wss": "443", "http": "80", "ws": "80"}[u.Scheme]
	host, rest, ok := splitHost(address)
	switch {
	case !ok || port == "":
	case u.Port() == "":
		all = append(all, host+":"+port+rest)
	case u.Port() == port:
		all = append(all, strings.TrimSuffix(host, ":"+port)+rest)
	}
	return all
}

// splitHost cuts address behind its host, without re-encoding either half.
func splitHost(address string) (host, rest string, ok bool) {
	scheme, after, ok := strings.Cut(address, "://")
	if !ok {
		return "", "", false
	}
	end := len(scheme) + len("://") + len(after)
	if i := strings.IndexAny(after, "/?#"); i >= 0 {
		end = len(scheme) + len("://") + i
	}
	return address[:end], address[end:], true
}
