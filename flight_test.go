package dibs_test

import (
	"fmt"
	"go/ast"
	"go/token"
	"slices"
	"strings"
	"testing"
)

// flights complains of a second opinion on who is in flight. call.InFlight says it
// of a state and admission's set counts; whoever lists the states again will one day
// list others, and two numbers that should be one differ.
func flights(got tree) (complaints []string) {
	for _, f := range got.files {
		if f.test || f.pkg == "call" {
			continue
		}
		say := func(n ast.Node, states []string) {
			if len(slices.Compact(slices.Sorted(slices.Values(states)))) > 1 {
				complaints = append(complaints, fmt.Sprintf("%s: lists %s; ask call.InFlight, or count admission's set", f.at(n), strings.Join(states, ", ")))
			}
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			var states []string
			switch n := n.(type) {
			case *ast.CaseClause: // case call.Placing, call.Dialing:
				for _, e := range n.List {
					states = append(states, flying(e)...)
				}
			case *ast.CompositeLit: // []call.State{…}, map[call.State]bool{…}
				for _, e := range n.Elts {
					if kv, ok := e.(*ast.KeyValueExpr); ok {
						e = kv.Key
					}
					states = append(states, flying(e)...)
				}
			case *ast.BinaryExpr: // s == call.Placing || s == call.Dialing
				if n.Op != token.LOR && n.Op != token.LAND {
					return true
				}
				states = compared(n)
				say(n, states)
				return len(states) == 0
			case *ast.CallExpr: // slices.Contains(…, call.Placing, call.Dialing)
				for _, e := range n.Args {
					states = append(states, flying(e)...)
				}
			}
			say(n, states)
			return true
		})
	}
	return complaints
}

// flying is the state in flight that an expression is, as a constant or as its word.
func flying(e ast.Expr) []string {
	states := map[string]string{"call.Placing": "placing", "call.Dialing": "dialing", "call.Ringing": "ringing", "call.Live": "live"}
	if w := states[selector(e)]; w != "" {
		return []string{w}
	}
	if lit, ok := e.(*ast.BasicLit); ok && lit.Kind == token.STRING {
		for _, w := range states {
			if lit.Value == `"`+w+`"` {
				return []string{w}
			}
		}
	}
	return nil
}

// compared are the states that a chain of || and && asks for.
func compared(e ast.Expr) (states []string) {
	switch e := e.(type) {
	case *ast.ParenExpr:
		return compared(e.X)
	case *ast.BinaryExpr:
		switch e.Op {
		case token.LOR, token.LAND:
			return append(compared(e.X), compared(e.Y)...)
		case token.EQL, token.NEQ:
			return append(flying(e.X), flying(e.Y)...)
		}
	}
	return nil
}

func TestFlights(t *testing.T) { holds(t, flights) }

func TestFlightsCatches(t *testing.T) {
	body := func(src string) map[string]string {
		return map[string]string{"dispatch/a.go": "package dispatch\n\nfunc f(s call.State) bool {\n" + src + "\n}"}
	}
	catches(t, flights, []planted{
		{"asked", body("return call.InFlight(s)"), nil},
		{"one state", body("return s == call.Ringing || x && s != call.Ringing"), nil},
		{"each its own case", body("switch s {\ncase call.Placing:\ncase call.Live:\n}\nreturn false"), nil},
		{"call itself", map[string]string{"call/a.go": "package call\n\nvar x = []State{call.Placing, call.Live}"}, nil},
		{"a test", map[string]string{"sim/a_test.go": "package sim\n\nvar x = []call.State{call.Placing, call.Live}"}, nil},
		{"a case", body("switch s {\ncase call.Placing, call.Dialing:\n\treturn true\n}\nreturn false"), []string{"dispatch/a.go:5:1: lists placing, dialing"}},
		{"a chain", body("return s == call.Ringing || (s == call.Live && x)"), []string{"lists ringing, live"}},
		{"a list", body("return slices.Contains([]call.State{call.Ringing, call.Live}, s)"), []string{"lists ringing, live"}},
		{"a set", body("return map[call.State]bool{call.Ringing: true, call.Live: true}[s]"), []string{"lists ringing, live"}},
		{"arguments", body("return isOne(s, call.Ringing, call.Live)"), []string{"lists ringing, live"}},
		{"words", body("return string(s) == \"placing\" || string(s) == \"live\""), []string{"lists placing, live"}},
	})
}
