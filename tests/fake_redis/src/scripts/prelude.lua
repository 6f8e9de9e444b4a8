-- The environment of a Redis script. Gets `execute`, which executes a command and returns its reply.
-- Returns the table of the scripts' globals, and the function that runs a script with its KEYS and ARGV.
local execute = ...

local WRONG_ARGUMENTS = 'ERR wrong number or type of arguments'

-- A view of a table that cannot be written to.
local function read_only(members)
  return setmetatable({}, {
    __index = members,
    __newindex = function() error('Attempt to modify a readonly table', 2) end,
  })
end

-- An error without a code gets the code ERR; a leading minus says that there is a code.
local function error_reply(text, ...)
  if type(text) ~= 'string' or select('#', ...) > 0 then return {err = WRONG_ARGUMENTS} end
  text = string.gsub(text, '^%-', '')
  return {err = string.find(text, ' ', 1, true) and text or 'ERR ' .. text}
end

local redis = {
  pcall = execute,
  call = function(...)
    local reply = execute(...)
    if type(reply) == 'table' and reply.err then error(reply, 0) end
    return reply
  end,
  error_reply = error_reply,
  status_reply = function(text, ...)
    if type(text) ~= 'string' or select('#', ...) > 0 then return {err = WRONG_ARGUMENTS} end
    return {ok = text}
  end,
}

-- An error of a command is caught as its text.
local function caught(finished, result, ...)
  if not finished and type(result) == 'table' and type(result.err) == 'string' then return false, result.err end
  return finished, result, ...
end

-- Without random numbers, and without what could carry anything from one run to the next.
local globals = {
  assert = assert, error = error, ipairs = ipairs, next = next, pairs = pairs, rawequal = rawequal, rawget = rawget,
  pcall = function(...) return caught(pcall(...)) end,
  select = select, setmetatable = setmetatable, tonumber = tonumber, tostring = tostring,
  type = type, unpack = unpack, xpcall = xpcall,
  redis = read_only(redis),
  string = read_only(string),
  table = read_only(table),
  math = read_only({
    abs = math.abs, ceil = math.ceil, floor = math.floor, fmod = math.fmod, huge = math.huge, max = math.max,
    min = math.min, modf = math.modf, pow = math.pow, sqrt = math.sqrt,
  }),
}
setmetatable(globals, {
  __index = function(_, name)
    error("Script attempted to access nonexistent global variable '" .. tostring(name) .. "'", 2)
  end,
})

local function run(script, keys, argv)
  globals.KEYS, globals.ARGV = keys, argv
  local finished, reply = pcall(script)
  if finished then return reply end
  return type(reply) == 'table' and reply.err and reply or {err = 'ERR ' .. tostring(reply)}
end

return read_only(globals), run
