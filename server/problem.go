package server

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/validation"

	"dibs/api"
	"dibs/call"
)

const problemType = "application/problem+json"

// problem is an api.Problem as huma answers it.
type problem struct{ *api.Problem }

// GetStatus is the HTTP status.
func (p problem) GetStatus() int { return p.Status }

// ContentType is that of problems, whatever was negotiated.
func (p problem) ContentType(string) string { return problemType }

// GetHeaders says when to come back.
func (p problem) GetHeaders() http.Header { return retryAfter(p.Problem) }

func retryAfter(p *api.Problem) http.Header {
	h := http.Header{}
	if p.RetryAfterMS > 0 {
		h.Set("Retry-After", strconv.FormatInt(max(1, int64((p.RetryAfterMS.Duration()+time.Second-1)/time.Second)), 10))
	}
	return h
}

// deny answers a problem outside of huma.
func (s *Server) deny(w http.ResponseWriter, r *http.Request, p *api.Problem) {
	v := visitOf(r.Context())
	sign(v, p)
	h := w.Header()
	maps.Copy(h, retryAfter(p))
	if p.Code == api.CodeUnauthorized || p.Code == api.CodeForbidden {
		h.Set("WWW-Authenticate", challenge(p.Code, v.header.Get("Authorization") != ""))
	}
	h.Set("Content-Type", problemType)
	w.WriteHeader(p.Status)
	_ = json.NewEncoder(w).Encode(p) // whoever is gone does not read it
}

// sign puts the request's marks on a problem.
func sign(v *visit, p *api.Problem) {
	v.code, p.RequestID = p.Code, v.id
	if p.Instance == "" {
		p.Instance = v.path[:min(len(v.path), 256)]
	}
}

// transform is huma's last step: its own errors become ours, and ours are signed.
func (s *Server) transform(ctx huma.Context, _ string, body any) (any, error) {
	v := visitOf(ctx.Context())
	switch p := body.(type) {
	case problem:
		sign(v, p.Problem)
		if p.Code == api.CodeForbidden {
			ctx.SetHeader("WWW-Authenticate", challenge(p.Code, true))
		}
	case *huma.ErrorModel:
		out := translate(p)
		out.Status = p.Status // what the status line says already
		if p.Status >= 500 {
			var texts []string
			for _, e := range p.Errors {
				texts = append(texts, e.Message)
			}
			v.err = errors.New(strings.Join(append([]string{p.Detail}, texts...), ": "))
		}
		sign(v, out)
		return problem{out}, nil
	}
	return body, nil
}

// translate says in our words what huma found wrong with a request. Values are not
// repeated: they may be somebody's number.
func translate(m *huma.ErrorModel) *api.Problem {
	switch m.Status {
	case http.StatusBadRequest:
		if len(m.Errors) == 0 {
			return api.NewProblem(api.CodeBodyMissing, "")
		}
		return api.NewProblem(api.CodeMalformedJSON, m.Errors[0].Message)
	case http.StatusUnsupportedMediaType:
		return api.NewProblem(api.CodeMediaType, "")
	case http.StatusUnprocessableEntity:
		var fields []api.FieldProblem
		for _, e := range m.Errors {
			fields = append(fields, fieldOf(e))
		}
		return invalid(fields...)
	}
	return api.NewProblem(api.CodeInternal, "")
}

// required is how huma says that a property is missing, around its name.
var requiredHead, requiredTail, _ = strings.Cut(validation.MsgExpectedRequiredProperty, "%s")

// fieldOf is one of huma's findings with the path of the field itself.
func fieldOf(e *huma.ErrorDetail) api.FieldProblem {
	path, isBody := strings.CutPrefix(e.Location, "body")
	path = strings.TrimPrefix(path, ".")
	detail := e.Message
	if name, ok := strings.CutPrefix(detail, requiredHead); ok && isBody {
		if name, ok = strings.CutSuffix(name, requiredTail); ok {
			path, detail = strings.TrimPrefix(path+"."+name, "."), "missing"
		}
	}
	switch detail {
	case validation.MsgUnexpectedProperty, "unknown query parameter":
		detail = unknown
	}
	return api.FieldProblem{Path: short(path), Detail: short(detail)}
}

const unknown = "unknown field"

// short bounds what a request can make us say.
func short(s string) string { return strings.ToValidUTF8(s[:min(len(s), 200)], "") }

// invalid is the problem of fields that cannot be used: with their own code when
// they agree on one.
func invalid(fields ...api.FieldProblem) *api.Problem {
	slices.SortFunc(fields, func(a, b api.FieldProblem) int {
		return cmp.Or(strings.Compare(a.Path, b.Path), strings.Compare(a.Detail, b.Detail))
	})
	fields = slices.Compact(fields)
	var codes []string
	for _, f := range fields {
		codes = append(codes, codeOf(f))
	}
	code := api.CodeInvalidField
	switch codes = slices.Compact(slices.Sorted(slices.Values(codes))); {
	case slices.Contains(codes, api.CodeUnknownField):
		code = api.CodeUnknownField
	case len(codes) == 1:
		code = codes[0]
	}
	p := api.NewProblem(code, "")
	p.Errors = fields[:min(len(fields), api.MaxFieldProblems)]
	return p
}

// codeOf is the code of one field.
func codeOf(f api.FieldProblem) string {
	if f.Detail == unknown {
		return api.CodeUnknownField
	}
	top := f.Path
	if i := strings.IndexAny(top, ".["); i >= 0 {
		top = top[:i]
	}
	switch top {
	case "to", "from":
		return api.CodeInvalidNumber
	case "class":
		return api.CodeInvalidClass
	case "flow":
		return api.CodeInvalidFlow
	case "hours", "tz":
		return api.CodeInvalidHours
	case "not_before", "not_after":
		return api.CodeInvalidWindow
	case "retry":
		return api.CodeInvalidRetry
	case "metadata":
		return api.CodeInvalidMetadata
	case "callback_url":
		return api.CodeInvalidCallbackURL
	}
	return api.CodeInvalidField
}

// field is a field that cannot be used, as an error.
func field(path, detail string) error {
	return problem{invalid(api.FieldProblem{Path: path, Detail: short(detail)})}
}

// again is a problem that passes.
func again(code, detail string, after time.Duration) *api.Problem {
	p := api.NewProblem(code, detail)
	p.RetryAfterMS = call.ToMillis(after)
	return p
}

// away reports whether err says that somebody else is not there.
func away(err error) bool {
	return errors.Is(err, api.ErrUnavailable) || errors.Is(err, context.DeadlineExceeded)
}

// fail is what an error of [Calls] means for the caller; unavailable is the code of
// an [api.ErrUnavailable].
func fail(ctx context.Context, err error, unavailable string) error {
	if fe, ok := errors.AsType[*call.FieldError](err); ok {
		return field(fe.Field, fe.Detail)
	}
	if ctx.Err() != nil { // whoever asked is gone, and reads none of this
		return problem{api.NewProblem(unavailable, "")}
	}
	if v := visitOf(ctx); v != nil {
		v.err = err
	}
	switch {
	case errors.Is(err, api.ErrNotFound):
		return problem{api.NewProblem(api.CodeCallNotFound, "")}
	case errors.Is(err, api.ErrEnded):
		return problem{api.NewProblem(api.CodeCallEnded, "")}
	case away(err):
		return problem{again(unavailable, "", time.Second)}
	}
	return problem{api.NewProblem(api.CodeInternal, "")}
}
