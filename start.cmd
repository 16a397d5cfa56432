@echo off
rem Starts Turno in containers on Windows; what it does stands in deploy\start.ps1, and start.sh does the same elsewhere.
powershell -NoProfile -ExecutionPolicy Bypass -File "%~dp0deploy\start.ps1" %*
if errorlevel 1 pause
