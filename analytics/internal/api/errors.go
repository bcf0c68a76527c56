package api

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"

	"github.com/labstack/echo/v4"
)

// writeError maps an error to its answer, once. What ClickHouse said stays in the log.
func writeError(c echo.Context, log *slog.Logger, err error) {
	if c.Response().Committed {
		return
	}
	status, kind, message := http.StatusServiceUnavailable, "api_error", "ClickHouse cannot answer right now; try again"
	var param *string
	if bad := (*badParameter)(nil); errors.As(err, &bad) {
		status, kind, param, message = http.StatusBadRequest, "invalid_request_error", &bad.name, bad.Error()
	} else if known := (*echo.HTTPError)(nil); errors.As(err, &known) {
		status, kind, message = known.Code, "invalid_request_error", fmt.Sprint(known.Message)
		if known.Code == http.StatusNotFound {
			message = "there is no " + c.Request().URL.Path + " here; see GET /"
		}
	} else {
		log.Error("answering a question", "path", c.Path(), "error", err)
	}
	body := map[string]any{"error": map[string]any{"message": message, "type": kind, "param": param}}
	if err := c.JSON(status, body); err != nil {
		log.Debug("writing an error", "error", err)
	}
}
