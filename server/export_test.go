package server

import "net/http"

// Mux lets a test add a route that nobody thought about.
func (s *Server) Mux() *http.ServeMux { return s.mux }
