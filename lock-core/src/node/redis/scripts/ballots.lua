local answers, count, key, arg = {}, 0, 3, 4

-- The place of the next ballot is noted before the work: one that fails is passed over.
local function go_on()
  while ARGV[arg] do
    local kind, at, from, code, number = ARGV[arg], key, arg + 1, nil, nil
    count = count + 2
    if kind == 'A' then
      key, arg = at + 4, from + 5
      code, number = acquire(at, from)
    elseif kind == 'R' then
      key, arg = at + 3, from + 2
      code, number = release(at, from)
    elseif kind == 'E' then
      key, arg = at + 1, from + 2
      code, number = rest().E(at, ARGV[from], ARGV[from + 1])
    elseif kind == 'C' then
      key, arg = at + 2, from + 2
      code, number = rest().C(at, ARGV[from], ARGV[from + 1])
    else
      key, arg = at + 2, from + 3
      code, number = rest().P(at, ARGV[from], ARGV[from + 1], ARGV[from + 2])
    end
    if not number then error('the fence is not a number', 0) end
    answers[count - 1], answers[count] = code, number
  end
end

repeat
  local done, failure = pcall(go_on)
  if not done then
    answers[count - 1], answers[count] = -1, type(failure) == 'table' and failure.err or tostring(failure)
  end
until done
return answers
