package main

import (
	"crypto/subtle"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"llama-operator.dev/testcluster/internal/host"
	"llama-operator.dev/testcluster/internal/machine"
)

// run is the program inside the virtual machine: it starts the node, and does
// what the driver asks over HTTP. It listens on the machine's own address only,
// and every request needs the cluster's token.
func (g *guest) run() error {
	if err := g.prepare(); err != nil {
		return err
	}
	failed := make(chan error)
	go func() {
		failed <- http.ListenAndServe(fmt.Sprintf("%s:%d", g.settings.Address, g.settings.Port), g.handler())
	}()
	go func() {
		if err := g.startNode(); err != nil {
			g.stage.Store("failed: " + err.Error())
			fmt.Println("guest:", err)
		}
	}()
	return <-failed
}

// handler serves what the driver asks for.
//
//	GET  /stage            what the machine is doing
//	GET  /logs/NAME        the log of one of its programs
//	PUT  /files/PATH       write a file
//	POST /images           import an image archive, answer with the names, one a line
//	POST /exec             run a JSON list of arguments; the exit code is a trailer
func (g *guest) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /stage", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, g.stage.Load()) })
	mux.HandleFunc("GET /logs/{name}", func(w http.ResponseWriter, r *http.Request) {
		http.ServeFile(w, r, filepath.Join(machine.Logs, filepath.Base(r.PathValue("name"))+".log"))
	})
	mux.HandleFunc("PUT /files/{path...}", func(w http.ResponseWriter, r *http.Request) {
		answer(w, host.WriteFile("/"+r.PathValue("path"), r.Body))
	})
	mux.HandleFunc("POST /images", g.serveImages)
	mux.HandleFunc("POST /exec", serveExec)
	return needToken(g.settings.Token, mux)
}

func needToken(token string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		given := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
		if token == "" || subtle.ConstantTimeCompare([]byte(given), []byte(token)) != 1 {
			http.Error(w, "the token is missing or not this cluster's", http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func (g *guest) serveImages(w http.ResponseWriter, r *http.Request) {
	path := machine.DataDisk + "/import.tar"
	defer os.Remove(path)
	if err := host.WriteFile(path, r.Body); err != nil {
		answer(w, err)
		return
	}
	names, err := host.ImportImage(g.settings.ContainerdSocket, path)
	if err != nil {
		answer(w, err)
		return
	}
	fmt.Fprintln(w, strings.Join(names, "\n"))
}

func serveExec(w http.ResponseWriter, r *http.Request) {
	var arguments []string
	if err := json.NewDecoder(r.Body).Decode(&arguments); err != nil || len(arguments) == 0 {
		http.Error(w, "send a JSON list of arguments", http.StatusBadRequest)
		return
	}
	w.Header().Set("Trailer", machine.ExitCodeTrailer)
	output := &flushingWriter{w, http.NewResponseController(w)}
	command := exec.CommandContext(r.Context(), arguments[0], arguments[1:]...)
	command.Stdout, command.Stderr = output, output
	if err := command.Run(); err != nil && command.ProcessState == nil {
		fmt.Fprintln(w, err)
	}
	code := 127
	if command.ProcessState != nil {
		code = command.ProcessState.ExitCode()
	}
	w.Header().Set(machine.ExitCodeTrailer, fmt.Sprint(code))
}

type flushingWriter struct {
	io.Writer
	controller *http.ResponseController
}

func (w *flushingWriter) Write(content []byte) (int, error) {
	written, err := w.Writer.Write(content)
	if err == nil {
		err = w.controller.Flush()
	}
	return written, err
}

func answer(w http.ResponseWriter, err error) {
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
}
