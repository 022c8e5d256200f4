package warmup

import (
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strings"
	"time"
)

var envName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// expand puts the values of environment variables in place of ${NAME}. The error
// names the variable, never a value.
func expand(s string) (string, error) {
	var out strings.Builder
	for {
		before, rest, found := strings.Cut(s, "${")
		out.WriteString(before)
		if !found {
			return out.String(), nil
		}
		name, after, closed := strings.Cut(rest, "}")
		if !closed || !envName.MatchString(name) {
			return "", fmt.Errorf("${ without a name and }")
		}
		v := strings.TrimSpace(os.Getenv(name)) // a key from a file often ends in a newline
		if v == "" {
			return "", fmt.Errorf("environment variable %s is not set", name)
		}
		out.WriteString(v)
		s = after
	}
}

// headers expands a table of HTTP headers.
func headers(m map[string]string) (http.Header, error) {
	h := make(http.Header, len(m))
	for k, v := range m {
		if !headerRE.MatchString(k) {
			return nil, fmt.Errorf("%q is no header name", oneLine(k))
		}
		v, err := expand(v)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", k, err)
		}
		if strings.ContainsFunc(v, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }) {
			return nil, fmt.Errorf("%s: its value has control characters", k)
		}
		h.Set(k, v)
	}
	return h, nil
}

var headerRE = regexp.MustCompile("^[A-Za-z0-9!#$%&'*+.^_`|~-]+$")

// origin is scheme, host and port of a URL, always with the port, or "" for
// what is not plain http or https. The user part is no part of it: refuse it first.
func origin(u *url.URL) string {
	port := u.Port()
	switch {
	case u.Hostname() == "" || u.Opaque != "":
		return ""
	case port != "":
	case u.Scheme == "http":
		port = "80"
	case u.Scheme == "https":
		port = "443"
	}
	if u.Scheme != "http" && u.Scheme != "https" {
		return ""
	}
	return u.Scheme + "://" + strings.ToLower(u.Hostname()) + ":" + port
}

// newTransport makes HTTP connections of one's own. A dial goes on when the
// request that wanted it is cancelled, so it needs a limit of its own;
// CloseIdleConnections ends such dials at once.
func newTransport(dial time.Duration) *http.Transport {
	return &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		DialContext:         (&net.Dialer{Timeout: dial}).DialContext,
		TLSHandshakeTimeout: dial,
		MaxIdleConnsPerHost: 4,
		IdleConnTimeout:     90 * time.Second,
		ForceAttemptHTTP2:   true,
	}
}
