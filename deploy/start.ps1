# The same as start.sh, for Windows PowerShell 5.1 and newer; start.cmd runs it.
$ErrorActionPreference = 'Stop'
Set-Location (Split-Path -Parent $PSScriptRoot)

function New-Secret {
  $bytes = New-Object byte[] 24
  $random = [Security.Cryptography.RandomNumberGenerator]::Create()
  $random.GetBytes($bytes)
  $random.Dispose()
  -join ($bytes | ForEach-Object { $_.ToString('x2') })
}

function Get-Sha256([string] $Text) {
  $hasher = [Security.Cryptography.SHA256]::Create()
  $digest = $hasher.ComputeHash([Text.Encoding]::UTF8.GetBytes($Text))
  $hasher.Dispose()
  -join ($digest | ForEach-Object { $_.ToString('x2') })
}

function Write-NewEnv {
  $key = New-Secret
  $samplesKey = New-Secret
  $keys = "owner:admin:$(Get-Sha256 $key),samples:read:$(Get-Sha256 $samplesKey)"
  $lines = foreach ($line in [IO.File]::ReadAllLines("$PWD\.env.example")) {
    switch -CaseSensitive -Regex ($line) {
      '^TURNO_API_KEY=$' { "TURNO_API_KEY=$key"; break }
      '^TURNO_API_KEYS=$' { "TURNO_API_KEYS=$keys"; break }
      '^SAMPLES_API_KEY=$' { "SAMPLES_API_KEY=$samplesKey"; break }
      '^[A-Z_]+=$' { "$line$(New-Secret)"; break }
      default { $line }
    }
  }
  # Readable by its owner only before anything stands in it; under its name only when it is complete.
  $partial = "$PWD\.env.partial"
  [IO.File]::WriteAllText($partial, '')
  icacls $partial /inheritance:r /grant:r "${env:USERNAME}:F" | Out-Null
  if ($LASTEXITCODE -ne 0) { throw "The file $partial could not be closed to others." }
  [IO.File]::WriteAllText($partial, ($lines -join "`n") + "`n")
  Move-Item $partial "$PWD\.env"
  Write-Host "Made .env with new secrets. Your key for the API and the panel, shown this once (it stays in .env):`n`n  $key`n"
}

function Get-Setting([string] $Name, [string] $Default) {
  $value = [Environment]::GetEnvironmentVariable($Name)
  if (-not $value) {
    $found = @([IO.File]::ReadAllLines("$PWD\.env") | Where-Object { $_.StartsWith("$Name=") })
    if ($found.Count -gt 0) { $value = $found[-1].Substring($Name.Length + 1) }
  }
  if ($value) { $value } else { $Default }
}

# A program's complaint on standard error must not end this script: its exit code decides.
function Test-Docker([string[]] $Arguments) {
  $ErrorActionPreference = 'Continue'
  try { & docker $Arguments 2>&1 | Out-Null } catch { return $false }
  $LASTEXITCODE -eq 0
}

if (-not (Test-Docker @('compose', 'version'))) {
  Write-Host 'Docker Desktop is needed: https://docs.docker.com/get-docker/'
  exit 1
}
if (-not (Test-Path .env)) {
  if (Test-Docker @('volume', 'inspect', 'turno_postgres')) {
    Write-Host 'There is no .env here, but a database of an earlier start (volume turno_postgres), whose password was in it.'
    Write-Host 'Put that .env back, or give up the data: docker compose down --volumes, then start again.'
    exit 1
  }
  Write-NewEnv
}

$ErrorActionPreference = 'Continue'
docker compose up --detach --build --wait --wait-timeout 900 @args
if ($LASTEXITCODE -ne 0) { exit 1 }

$hostName = Get-Setting 'API_HOST' '127.0.0.1'
if ($hostName -eq '0.0.0.0') { $hostName = 'localhost' }
$url = "http://${hostName}:$(Get-Setting 'API_PORT' '8080')"
Write-Host "Turno is ready: $url`nStop it with: docker compose stop"
if (-not $env:NO_BROWSER) { Start-Process $url }
