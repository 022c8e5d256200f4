package sim

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"dibs/dispatch"
)

// hear keeps what dispatchers tell.
func (w *world) hear(h dispatch.Happening) {
	w.mu.Lock()
	w.told = append(w.told, h)
	f := w.alsoTell
	w.mu.Unlock()
	if f != nil {
		f(h)
	}
}

// onTell lets f hear, too; it runs where it is told and may block.
func (w *world) onTell(f func(dispatch.Happening)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.alsoTell = f
}

// heard are the happenings of a call, or, with an empty id, those of none.
func (w *world) heard(id string) (hs []dispatch.Happening) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, h := range w.told {
		if h.Order.CallID == id {
			hs = append(hs, h)
		}
	}
	return hs
}

// types are the types of a call's happenings, in order.
func (w *world) types(id string) (types []string) {
	for _, h := range w.heard(id) {
		types = append(types, h.Type)
	}
	return types
}

// story is everything that happened, for a test that failed.
func (w *world) story() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var s strings.Builder
	for _, h := range w.told {
		detail, err := json.Marshal(h.Detail)
		if err != nil {
			detail = []byte(errors.Join(err).Error())
		}
		fmt.Fprintf(&s, "%s %s %s %s\n", h.At.Format("15:04:05.000"), h.Type, h.Order.CallID, detail)
	}
	return s.String()
}
