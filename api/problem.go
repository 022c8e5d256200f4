package api

import (
	"strings"

	"dibs/call"
)

// Problem says why something was not done (RFC 9457). Code is what programs branch
// on; it does not change. Detail is for people and may. It holds no token and no
// whole telephone number.
type Problem struct {
	Type   string `json:"type" example:"/problems/no_idle_bot" doc:"Where the code is explained, relative to the server."`
	Title  string `json:"title" example:"No idle bot" doc:"The code in words."`
	Status int    `json:"status" example:"503" doc:"The HTTP status."`
	Code   string `json:"code" example:"no_idle_bot" doc:"What programs branch on; it does not change."`
	Detail string `json:"detail,omitempty" doc:"What it was this time."`

	Errors       []FieldProblem `json:"errors,omitempty" nullable:"false" doc:"The fields that are to blame, at most 20."`
	RetryAfterMS call.Millis    `json:"retry_after_ms,omitempty" doc:"Worth trying again after this, as the header Retry-After says in seconds."`
	Instance     string         `json:"instance,omitempty" doc:"What it is about: a path of this server."`
	RequestID    string         `json:"request_id,omitempty" doc:"Of this request, as in the server's log and the header X-Request-Id."`

	// Of a claim that got no bot.
	Reason   string         `json:"reason,omitempty" doc:"call_rejected: the bot's own word for it, such as flow_not_found."`
	Attempts []ClaimAttempt `json:"attempts,omitempty" nullable:"false" doc:"A claim without a bot: every ask, in order."`
	Counts   *Counts        `json:"counts,omitempty" doc:"A claim without a bot: who was there."`
}

// FieldProblem is what is wrong with one field.
type FieldProblem struct {
	Path   string `json:"path" example:"retry.on[0]" doc:"In the body; or query.limit, header.Idempotency-Key. Empty: the body as a whole."`
	Detail string `json:"detail" doc:"What is wrong with it."`
}

// MaxFieldProblems is how many fields one problem names.
const MaxFieldProblems = 20

// NewProblem is the problem of a code, with its title and status.
func NewProblem(code, detail string) *Problem {
	c := CodeOf(code)
	return &Problem{Type: "/problems/" + c.Code, Title: c.Title, Status: c.Status, Code: c.Code, Detail: detail}
}

// Error is one line: the code, the detail, the fields.
func (p *Problem) Error() string {
	var b strings.Builder
	b.WriteString(p.Code)
	if p.Detail != "" {
		b.WriteString(": " + p.Detail)
	}
	for i, e := range p.Errors {
		b.WriteString([]string{": ", "; "}[min(i, 1)])
		if e.Path != "" {
			b.WriteString(e.Path + ": ")
		}
		b.WriteString(e.Detail)
	}
	return b.String()
}
