package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"llama-operator.dev/testcluster/internal/machine"
)

// ask sends a request to an agent whose token is "secret".
func ask(t *testing.T, token, method, path, body string) (status int, text string, trailer http.Header) {
	t.Helper()
	server := httptest.NewServer(newGuest(machine.NodeSettings{Token: "secret"}).handler())
	defer server.Close()
	request, err := http.NewRequest(method, server.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+token)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(content), response.Trailer
}

func TestTheAgentAnswersOnlyTheTokenOfItsCluster(t *testing.T) {
	for token, want := range map[string]int{"secret": 200, "another": 401, "": 401} {
		if status, text, _ := ask(t, token, "GET", "/stage", ""); status != want {
			t.Errorf("token %q: %d %s", token, status, text)
		}
	}
}

func TestAnAgentWithoutATokenAnswersNobody(t *testing.T) {
	recorder := httptest.NewRecorder()
	newGuest(machine.NodeSettings{}).handler().ServeHTTP(recorder, httptest.NewRequest("GET", "/stage", nil))
	if recorder.Code != http.StatusUnauthorized {
		t.Errorf("got %d", recorder.Code)
	}
}

func TestAFileArrives(t *testing.T) {
	path := filepath.Join(t.TempDir(), "folder", "model.gguf")
	if status, text, _ := ask(t, "secret", "PUT", "/files"+path, "weights"); status != 200 {
		t.Fatalf("%d %s", status, text)
	}
	if content, err := os.ReadFile(path); err != nil || string(content) != "weights" {
		t.Errorf("got %q, %v", content, err)
	}
}

func TestExecGivesOutputAndExitCode(t *testing.T) {
	for body, want := range map[string][2]string{
		`["sh", "-c", "echo out; exit 3"]`: {"out\n", "3"},
		`["true"]`:                         {"", "0"},
	} {
		status, text, trailer := ask(t, "secret", "POST", "/exec", body)
		if got := [2]string{text, trailer.Get(machine.ExitCodeTrailer)}; status != 200 || got != want {
			t.Errorf("%s: %d %q", body, status, got)
		}
	}
	if _, _, trailer := ask(t, "secret", "POST", "/exec", `["no-such-program"]`); trailer.Get(machine.ExitCodeTrailer) != "127" {
		t.Errorf("got %v", trailer)
	}
	if status, _, _ := ask(t, "secret", "POST", "/exec", `[]`); status != http.StatusBadRequest {
		t.Errorf("got %d", status)
	}
}
