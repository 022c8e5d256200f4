package warmup

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"dibs/internal/audio"
)

// vendor is what speech APIs have in common.
type vendor struct {
	base         *url.URL
	key          string
	model, voice string
	client       *http.Client
}

// CloseIdleConnections is called when the [Warmer] closes.
func (v *vendor) CloseIdleConnections() { v.client.CloseIdleConnections() }

// post sends body and reads audio of at most limit bytes.
func (v *vendor) post(ctx context.Context, u *url.URL, header http.Header, body any, limit int64) (data []byte, contentType string, err error) {
	sent, err := json.Marshal(body)
	if err != nil {
		return nil, "", err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, u.String(), bytes.NewReader(sent))
	if err != nil {
		return nil, "", err
	}
	req.Header = header
	req.Header.Set("Content-Type", "application/json")
	resp, err := v.client.Do(req)
	if err != nil {
		return nil, "", speechFailed(ctx, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, "", speechRefused(resp)
	}
	contentType = resp.Header.Get("Content-Type")
	if strings.HasPrefix(contentType, "application/json") || strings.HasPrefix(contentType, "text/") {
		return nil, "", &Error{Code: GreetingFailed, Detail: "the speech engine answers with " + oneLine(contentType) + " in place of sound"}
	}
	data, err = readAtMost(resp.Body, limit)
	switch {
	case errors.Is(err, errOver):
		return nil, "", &Error{Code: GreetingFailed, Detail: fmt.Sprintf("the speech engine sends more than %v of sound", maxSpeech), Err: err}
	case err != nil:
		return nil, "", speechFailed(ctx, err)
	case len(data) == 0:
		return nil, "", &Error{Code: GreetingFailed, Detail: "the speech engine sends no sound"}
	}
	return data, contentType, nil
}

func speechFailed(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return &Error{Code: GreetingFailed, Detail: "the speech engine: " + reason(err), Err: err}
}

// speechRefused reads the status and the vendor's word for it, and nothing else:
// what vendors say in sentences can repeat the text or a part of the key.
func speechRefused(resp *http.Response) error {
	e := &Error{Code: GreetingFailed, Detail: "the speech engine says " + status(resp.StatusCode)}
	body, _ := io.ReadAll(io.LimitReader(resp.Body, 8<<10))
	if word := vendorWord(body); word != "" {
		e.Detail += " " + word
	}
	switch resp.StatusCode {
	case http.StatusTooManyRequests:
		e.Code, e.RetryAfter = ProviderRateLimited, retryAfter(resp.Header)
	case http.StatusBadRequest, http.StatusNotFound, http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity:
		e.Err = ErrVoiceRefused
	}
	return e
}

var wordRE = regexp.MustCompile(`^[a-z][a-z0-9_]{1,47}$`)

// vendorWord finds {"error": {"code"|"type": …}} and {"detail": {"status": …}}.
func vendorWord(body []byte) string {
	var e struct {
		Error  json.RawMessage `json:"error"`
		Detail json.RawMessage `json:"detail"`
	}
	_ = json.Unmarshal(body, &e)
	for _, raw := range []json.RawMessage{e.Error, e.Detail} {
		var words map[string]any
		_ = json.Unmarshal(raw, &words)
		for _, k := range []string{"code", "status", "type"} {
			if w, ok := words[k].(string); ok && wordRE.MatchString(w) {
				return w
			}
		}
	}
	return ""
}

// openAI speaks the speech endpoint of OpenAI, which many others have as well.
type openAI struct{ vendor }

const openAIRate = 24_000 // of response_format pcm: 16 bits, little endian, no header

func (v *openAI) Speak(ctx context.Context, text, voice, _ string) ([]int16, int, error) {
	header := make(http.Header)
	if v.key != "" {
		header.Set("Authorization", "Bearer "+v.key)
	}
	body := struct {
		Model  string `json:"model"`
		Input  string `json:"input"`
		Voice  string `json:"voice"`
		Format string `json:"response_format"`
	}{v.model, text, cmp.Or(voice, v.voice), "pcm"}
	// Compatible servers may have up to 48 kHz.
	limit := 2 * 2 * openAIRate * int64(maxSpeech/time.Second)
	data, contentType, err := v.post(ctx, v.base.JoinPath("v1/audio/speech"), header, body, limit)
	if err != nil {
		return nil, 0, err
	}
	// Some of them send a file whatever they are asked for.
	if bytes.HasPrefix(data, []byte("RIFF")) {
		pcm, rate, err := audio.ReadWAV(data)
		if err != nil {
			return nil, 0, &Error{Code: GreetingFailed, Detail: oneLine(err.Error()), Err: err}
		}
		return pcm, rate, nil
	}
	rate := openAIRate
	switch typ, params, _ := mime.ParseMediaType(contentType); {
	case typ == "audio/mpeg", typ == "audio/ogg", typ == "audio/aac", typ == "audio/flac":
		return nil, 0, &Error{Code: GreetingFailed, Detail: "the speech engine sends " + typ + " in place of pcm"}
	case params["rate"] != "":
		if n, err := strconv.Atoi(params["rate"]); err == nil && n > 0 && n <= audio.MaxRate {
			rate = n
		}
	}
	if len(data)%2 != 0 {
		return nil, 0, &Error{Code: GreetingFailed, Detail: "the speech engine sends half a sample: it was cut off"}
	}
	pcm := make([]int16, len(data)/2)
	for i := range pcm {
		pcm[i] = int16(binary.LittleEndian.Uint16(data[2*i:]))
	}
	return pcm, rate, nil
}

var elevenVoice = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// elevenLabs streams µ-law, ready for the telephone.
type elevenLabs struct{ vendor }

func (v *elevenLabs) Speak(ctx context.Context, text, voice, locale string) ([]int16, int, error) {
	voice = cmp.Or(voice, v.voice)
	if !elevenVoice.MatchString(voice) { // it becomes a part of the path
		return nil, 0, &Error{Code: GreetingFailed, Detail: "not the id of a voice", Err: ErrVoiceRefused}
	}
	u := v.base.JoinPath("v1/text-to-speech", voice, "stream")
	u.RawQuery = url.Values{"output_format": {"ulaw_8000"}}.Encode()
	body := struct {
		Text     string `json:"text"`
		Model    string `json:"model_id"`
		Language string `json:"language_code,omitempty"`
	}{Text: text, Model: v.model}
	// Other models take a language code for an error.
	if strings.HasSuffix(v.model, "_v2_5") {
		language, _, _ := strings.Cut(strings.ReplaceAll(locale, "_", "-"), "-")
		body.Language = strings.ToLower(language)
	}
	header := make(http.Header)
	header.Set("xi-api-key", v.key)
	data, _, err := v.post(ctx, u, header, body, audio.Rate*int64(maxSpeech/time.Second))
	if err != nil {
		return nil, 0, err
	}
	return audio.DecodeMuLaw(data), audio.Rate, nil
}
