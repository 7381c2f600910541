// hello is the program of the check's pods: a web server that says who it is,
// and "hello status", which prints where it may run.
package main

import (
	"fmt"
	"net/http"
	"os"
	"strings"
)

func main() {
	switch {
	case len(os.Args) == 2 && os.Args[1] == "status":
		text, err := os.ReadFile("/proc/self/status")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		for _, line := range strings.Split(string(text), "\n") {
			if name, value, _ := strings.Cut(line, ":\t"); name == "Cpus_allowed_list" || name == "Mems_allowed_list" {
				fmt.Printf("%s=%s\n", name, value)
			}
		}
		fmt.Printf("GPU=%s\n", os.Getenv("NVIDIA_VISIBLE_DEVICES"))
	case len(os.Args) == 3 && os.Args[1] == "get":
		response, err := http.Get(os.Args[2])
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		defer response.Body.Close()
		response.Write(os.Stdout)
	default:
		fmt.Println("hello is up")
		http.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
			name, _ := os.Hostname()
			fmt.Fprintf(w, "hello from %s\n", name)
		})
		fmt.Println(http.ListenAndServe(":8080", nil))
		os.Exit(1)
	}
}
