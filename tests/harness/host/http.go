package host

import (
	"encoding/json"
	"errors"
	"log"
	"net/http"

	"idempotencyd/tests/harness/scenario"
)

// What a step may be: long texts are in it as they are.
const maxBodyBytes = 256 << 20

// ServeMux has what client/scenarios/README.md says.
func (h *Host) ServeMux() *http.ServeMux {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /service", h.getService)
	mux.HandleFunc("GET /scenarios", h.getScenarios)
	mux.HandleFunc("POST /sessions", h.postSession)
	mux.HandleFunc("POST /sessions/{id}/steps", h.postStep)
	mux.HandleFunc("POST /sessions/{id}/judge", h.postJudge)
	mux.HandleFunc("POST /sessions/{id}/end", h.postEnd)
	return mux
}

func (h *Host) getService(w http.ResponseWriter, _ *http.Request) {
	answer(w, http.StatusOK, map[string]any{"target": h.Target()})
}

func (h *Host) getScenarios(w http.ResponseWriter, _ *http.Request) {
	list := []any{}
	for _, offered := range h.options.Scenarios {
		list = append(list, map[string]any{"name": offered.Name, "title": offered.Title})
	}
	answer(w, http.StatusOK, list)
}

func (h *Host) postSession(w http.ResponseWriter, r *http.Request) {
	var asked struct {
		Scenario string `json:"scenario"`
		Language string `json:"language"`
	}
	if !read(w, r, &asked) {
		return
	}
	opened, err := h.openSession(r.Context(), asked.Scenario, asked.Language)
	if err != nil {
		refuse(w, err)
		return
	}
	client := opened.scenario.Client
	if client == nil {
		client = map[string]any{}
	}
	answer(w, http.StatusOK, map[string]any{
		"id": opened.id, "target": opened.proxy.Address(), "client": client, "steps": opened.steps,
	})
}

func (h *Host) postStep(w http.ResponseWriter, r *http.Request) {
	session, err := h.session(r.PathValue("id"))
	if err != nil {
		refuse(w, err)
		return
	}
	var step scenario.Step
	if read(w, r, &step) {
		answerProblem(w, session.do(r.Context(), step))
	}
}

func (h *Host) postJudge(w http.ResponseWriter, r *http.Request) {
	session, err := h.session(r.PathValue("id"))
	if err != nil {
		refuse(w, err)
		return
	}
	var asked struct {
		Expect any `json:"expect"`
		Actual any `json:"actual"`
	}
	if read(w, r, &asked) {
		answerProblem(w, session.compare(asked.Expect, asked.Actual))
	}
}

func (h *Host) postEnd(w http.ResponseWriter, r *http.Request) {
	var claimed Result
	if !read(w, r, &claimed) {
		return
	}
	result, err := h.end(r.PathValue("id"), claimed)
	if err != nil {
		refuse(w, err)
		return
	}
	if claimed.Passed {
		answerProblem(w, result.Problem)
		return
	}
	answerProblem(w, "")
}

func read(w http.ResponseWriter, r *http.Request, into any) bool {
	if err := scenario.Decode(http.MaxBytesReader(w, r.Body, maxBodyBytes), into); err != nil {
		refuse(w, refusal{http.StatusBadRequest, err.Error()})
		return false
	}
	return true
}

func answerProblem(w http.ResponseWriter, problem string) {
	if problem == "" {
		answer(w, http.StatusOK, map[string]any{"ok": true})
		return
	}
	answer(w, http.StatusOK, map[string]any{"ok": false, "problem": problem})
}

func refuse(w http.ResponseWriter, err error) {
	var refused refusal
	if !errors.As(err, &refused) {
		log.Print(err)
		refused = refusal{http.StatusInternalServerError, err.Error()}
	}
	answer(w, refused.status, map[string]any{"error": refused.text})
}

func answer(w http.ResponseWriter, status int, value any) {
	text, err := json.Marshal(value)
	if err != nil {
		log.Print(err)
		status, text = http.StatusInternalServerError, []byte(`{"error": "no JSON"}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	// Nobody is left to be told when it fails.
	_, _ = w.Write(append(text, '\n'))
}
